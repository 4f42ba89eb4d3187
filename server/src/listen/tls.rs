//! TLS: the certificate of the server, and verification of clients by their certificates.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use arc_swap::ArcSwap;
use graphmill_engine::{FileStamps, read_regular};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{Error, PemObject},
    },
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use crate::file_watch;

/// The TLS files of a server, all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate of the server with its intermediates.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// CA certificates. Clients must present a certificate signed by one of them. `None` accepts
    /// all clients.
    pub client_ca: Option<PathBuf>,
}

/// The error that a certificate cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The certificates that are valid now.
pub(crate) struct Tls {
    files: TlsFiles,
    opened: FileStamps,
    now: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the certificate, the key and the CA certificates.
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let paths = [&files.certificate, &files.key].into_iter();
        let opened = file_watch::look_at(paths.chain(&files.client_ca).map(PathBuf::as_path));
        Ok(Self {
            now: ArcSwap::from_pointee(read(&files)?),
            files,
            opened,
        })
    }

    /// Returns an acceptor with the current certificates.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now.load_full())
    }

    fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                self.now.store(Arc::new(config));
                let file = self.files.certificate.display();
                tracing::info!("reloaded the certificate from `{file}`");
            }
            Err(error) => tracing::error!("the certificate was not reloaded: {error}"),
        }
    }
}

/// Reads the files again when they change, as long as they are in use. Open connections keep their
/// certificate.
pub(crate) async fn watch_certificates(tls: Weak<Tls>) {
    let Some(opened) = tls.upgrade().map(|tls| tls.opened.clone()) else {
        return;
    };
    let reload = move || tls.upgrade().map(|tls| tls.reload()).is_some();
    file_watch::follow(opened, reload).await;
}

fn wrong(flag: &str, file: &Path, error: impl Display) -> TlsError {
    TlsError(format!("`{}` (--{flag}): {error}", file.display()))
}

fn read(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let (certificate, key) = (&files.certificate, &files.key);
    let chain = certificates("tls_cert_file", certificate)?;
    let private = read_regular(key)
        .map_err(Error::Io)
        .and_then(|text| PrivateKeyDer::from_pem_slice(&text))
        .map_err(|error| wrong("tls_key_file", key, describe(&error)))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("tls_cert_file", certificate, error))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let flag = "tls_client_ca_file";
            let mut roots = RootCertStore::empty();
            for certificate in certificates(flag, file)? {
                let added = roots.add(certificate);
                added.map_err(|error| wrong(flag, file, error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(flag, file, error))?)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| {
        let both = format!("with the key `{}`: {error}", key.display());
        wrong("tls_cert_file", certificate, both)
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Reads the certificates in a file, at least one.
fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = read_regular(file)
        .map_err(Error::Io)
        .and_then(|text| CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong(flag, file, describe(&error)))?;
    if certificates.is_empty() {
        return Err(wrong(flag, file, "it contains no PEM certificate"));
    }
    Ok(certificates)
}

/// Describes an error of a file, without its contents.
fn describe(error: &Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "it contains none in PEM".to_owned(),
        _ => "it is not PEM".to_owned(),
    }
}
