//! Services with valid and invalid certificates, over real sockets.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::support::TestEnvironment;
use crate::support::canned_responses::{Canned, small};

/// An authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A service with a certificate for `name`, valid until the begin of the year `until`.
    fn service(&self, name: &str, until: i32) -> Canned {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        Canned::start(Some(Arc::new(tls)), small)
    }
}

fn environment(service: &Canned, more: &str) -> TestEnvironment {
    TestEnvironment::new().account_with(&format!("https://127.0.0.1:{}", service.port()), more)
}

#[test]
fn a_private_ca_is_set_in_the_configuration_or_the_environment() {
    let authority = Authority::new();
    let service = authority.service("127.0.0.1", 2100);
    let trusting = environment(&service, "ca_file = \"ca.pem\"\n").file("ca.pem", &authority.pem);
    trusting.run(&["backup", "main", "-q"]).succeeds();
    trusting.run(&["show", "main@latest", "campaigns"]).succeeds().stdout_has("Campaign 3");
    let by_variable = environment(&service, "").file("ca.pem", &authority.pem);
    let file = by_variable.path("ca.pem").display().to_string();
    let by_variable = by_variable.variable("SSL_CERT_FILE", &file);
    by_variable.run(&["backup", "main", "-q"]).succeeds();
    // The configuration is closer to the account.
    let other = environment(&service, "ca_file = \"other.pem\"\n")
        .file("other.pem", &Authority::new().pem)
        .variable("SSL_CERT_FILE", &file);
    other.run(&["backup", "main"]).exits_with(1).stderr_has("issuer");
}

#[test]
fn each_invalid_certificate_has_its_message_and_is_not_retried() {
    let authority = Authority::new();
    for (service, trusted, why) in [
        (authority.service("127.0.0.1", 2020), true, "the certificate has expired"),
        (authority.service("other.example", 2100), true, "the certificate is for another host"),
        (authority.service("127.0.0.1", 2100), false, "the issuer of the certificate is unknown"),
    ] {
        let more = if trusted { "ca_file = \"ca.pem\"\n" } else { "" };
        let environment = environment(&service, more).file("ca.pem", &authority.pem);
        let ran = environment.run(&["backup", "main"]).exits_with(1);
        let said = format!("no secure connection: 127.0.0.1: {why}");
        ran.stderr_has(&said).stderr_has("SSL_CERT_FILE");
        assert_eq!(service.connections(), 1, "{why}");
    }
}

#[test]
fn a_file_without_certificates_is_named() {
    let service = Authority::new().service("127.0.0.1", 2100);
    let environment = environment(&service, "ca_file = \"ca.pem\"\n").file("ca.pem", "none\n");
    let ran = environment.run(&["backup", "main"]).exits_with(1);
    ran.stderr_has("cannot read the certificates in HOME/ca.pem: it has no PEM certificate");
    std::fs::remove_file(environment.path("ca.pem")).unwrap();
    let ran = environment.run(&["backup", "main"]).exits_with(1);
    ran.stderr_has("cannot read the certificates in HOME/ca.pem: No such file");
    assert_eq!(service.connections(), 0);
}
