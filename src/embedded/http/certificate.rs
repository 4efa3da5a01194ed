//! A fresh certificate authority and a server certificate for loopback. The authority's key is thrown away, so
//! nothing else can ever be signed with it.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Making it failed.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// TLS does not take it.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// What a server shows and what its clients trust.
#[derive(Debug)]
pub struct Certificate {
    authority: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Certificate {
    /// A certificate for 127.0.0.1, ::1 and localhost, valid from 2020 to 2099: a lab is shorter-lived than that, and
    /// a laptop whose clock is off must still trust it.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn generate() -> Result<Self, CertificateError> {
        let mut authority = params(Vec::new(), "dralab lab authority")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned);
        let mut server = params(names.to_vec(), "dralab lab API")?;
        server.use_authority_key_identifier_extension = true;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;
        Ok(Certificate {
            authority: authority_certificate.pem(),
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        })
    }

    /// The authority's certificate in PEM, for a kubeconfig.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority
    }

    /// TLS for a server that speaks HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// When rustls does not take the certificate.
    pub(super) fn tls(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), PrivateKeyDer::Pkcs8(self.key.clone_key()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2099, 12, 31);
    Ok(params)
}
