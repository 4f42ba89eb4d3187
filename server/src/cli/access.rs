//! Flags that say who may use the server, and how it shows who it is.

use std::{env, path::PathBuf};

use clap::Args;

use crate::{
    http::state::Options,
    keys::{Digest, KeySource},
    listen::TlsFiles,
};

/// Where the key of a server is that has no key file: the second is OpenVINO Model Server's.
const VARIABLES: [&str; 2] = ["GRAPHMILL_API_KEY", "API_KEY"];

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
#[expect(clippy::struct_field_names, reason = "fields are called as the flags")]
pub(super) struct Access {
    /// The keys of those who may use the server: a file with one key, or JSON with many. It is read
    /// again when it changes. Without the flag, the variable `GRAPHMILL_API_KEY` or else `API_KEY`
    /// has the one key; without them there are no keys.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// The certificate of the server in PEM, with those between it and one that clients know: all
    /// connections are TLS then. It is read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Certificates in PEM that those of clients have to be signed by: who has none is not let in.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_client_ca_file: Option<PathBuf>,
}

impl Access {
    /// Says in the options who may use the server.
    pub(super) fn apply(&self, options: &mut Options) {
        options.keys = match &self.api_key_file {
            Some(file) => Some(KeySource::File(file.clone())),
            None => from_environment(),
        };
        if let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_key_file) {
            options.tls = Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: self.tls_client_ca_file.clone(),
            });
        }
    }
}

fn from_environment() -> Option<KeySource> {
    VARIABLES.into_iter().find_map(|variable| {
        let key = env::var_os(variable).filter(|key| !key.is_empty())?;
        tracing::info!("requests need the key that is in {variable}");
        Some(KeySource::One(Digest::of(key.as_encoded_bytes())))
    })
}
