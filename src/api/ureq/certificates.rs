//! Trusted certificates, and the reasons for which a certificate is not accepted.

use std::sync::Arc;

use rustls::CertificateError;
use ureq::Error;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Certificate authorities that are trusted instead of the built-in ones. Clones share their memory.
#[derive(Debug, Clone)]
pub struct TrustedCertificates(Arc<Vec<Certificate<'static>>>);

impl PartialEq for TrustedCertificates {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(Certificate::der).eq(other.0.iter().map(Certificate::der))
    }
}

impl Eq for TrustedCertificates {}

impl TrustedCertificates {
    /// Reads the certificates of a PEM file.
    ///
    /// # Errors
    /// In words, if the file has no certificate or is damaged.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut found = Vec::new();
        for item in parse_pem(pem) {
            match item {
                Ok(PemItem::Certificate(certificate)) => found.push(certificate),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if found.is_empty() {
            return Err("it has no PEM certificate".to_owned());
        }
        Ok(Self(Arc::new(found)))
    }

    pub(super) fn config(&self) -> TlsConfig {
        TlsConfig::builder().root_certs(RootCerts::Specific(Arc::clone(&self.0))).build()
    }
}

/// Why the server's certificate was not accepted; `None` for other errors.
pub(super) fn refused(error: &Error) -> Option<String> {
    let inner = match error {
        Error::Rustls(error) => error,
        Error::Io(error) => error.get_ref()?.downcast_ref()?,
        _ => return None,
    };
    let rustls::Error::InvalidCertificate(why) = inner else { return None };
    Some(match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet; check the clock of this machine".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host".to_owned()
        }
        CertificateError::UnknownIssuer => "the issuer of the certificate is unknown".to_owned(),
        other => format!("the certificate is not valid: {other}"),
    })
}
