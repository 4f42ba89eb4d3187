//! TLS: the certificate of the server, and the clients that it lets in by theirs.

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

/// The files of a server that speaks TLS, all in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, with those between it and one that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificates that those of clients have to be signed by; without, clients need none.
    pub client_ca: Option<PathBuf>,
}

/// Reason for which a certificate cannot be used.
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
    /// Reads the files.
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let paths = [&files.certificate, &files.key].into_iter();
        let opened = file_watch::look_at(paths.chain(&files.client_ca).map(PathBuf::as_path));
        Ok(Self {
            now: ArcSwap::from_pointee(read(&files)?),
            files,
            opened,
        })
    }

    /// For a connection that comes now.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now.load_full())
    }

    fn reload(&self) {
        match read(&self.files) {
            Ok(config) => {
                self.now.store(Arc::new(config));
                let file = self.files.certificate.display();
                tracing::info!("the certificate was read again from `{file}`");
            }
            Err(error) => tracing::error!("the certificate stays as it was: {error}"),
        }
    }
}

/// Reads the files again when they change, for as long as they are in use. Connections keep the
/// certificate with which they began.
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
        .map_err(|error| wrong("tls_key_file", key, told(&error)))?;
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

/// Reads the certificates of a file, at least one.
fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = read_regular(file)
        .map_err(Error::Io)
        .and_then(|text| CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong(flag, file, told(&error)))?;
    if certificates.is_empty() {
        return Err(wrong(flag, file, "it has no certificate in PEM"));
    }
    Ok(certificates)
}

/// Tells what is wrong with a file, without what is in it.
fn told(error: &Error) -> String {
    match error {
        Error::Io(error) => error.to_string(),
        Error::NoItemsFound => "it has none in PEM".to_owned(),
        _ => "it is not PEM".to_owned(),
    }
}
