//! Trusted certificates, and the reasons for which a certificate is not accepted.

use std::sync::Arc;

use rustls::CertificateError;
use ureq::Error;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Certificate authorities that are trusted instead of the built-in ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedCertificates(Vec<Vec<u8>>);

impl TrustedCertificates {
    /// Reads the certificates of a PEM file.
    ///
    /// # Errors
    /// In words, if the file has no certificate or is damaged.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut found = Vec::new();
        for item in parse_pem(pem) {
            match item {
                Ok(PemItem::Certificate(certificate)) => found.push(certificate.der().to_vec()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if found.is_empty() {
            return Err("it has no PEM certificate".to_owned());
        }
        Ok(Self(found))
    }

    pub(super) fn config(&self) -> TlsConfig {
        let certificates = self.0.iter().map(|der| Certificate::from_der(der).to_owned());
        let roots = RootCerts::Specific(Arc::new(certificates.collect()));
        TlsConfig::builder().root_certs(roots).build()
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
