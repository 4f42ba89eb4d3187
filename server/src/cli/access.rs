//! Flags for keys, tokens and TLS.

use std::path::PathBuf;

use clap::Args;
use reqwest::Url;

use super::{heading, variable};
use crate::{
    app::state::Options,
    keys::{Digest, JwksSource, JwtOptions, KeySource},
    listen::TlsFiles,
};

/// Variables that hold the key of a server without a key file. The second is OpenVINO Model
/// Server's.
const VARIABLES: [&str; 2] = ["GRAPHMILL_API_KEY", "API_KEY"];

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = heading::SECURITY)]
pub(super) struct Access {
    /// File of API keys: one key, or JSON with many.
    ///
    /// The file is read again when it changes. Without the flag, the variable `GRAPHMILL_API_KEY`
    /// or else `API_KEY` holds the only key; without these, no key is needed.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// The only accepted key, in place of a file. Other users of the machine can see it in the list
    /// of processes.
    #[arg(long, value_name = "KEY", value_parser = key)]
    api_key: Option<String>,
    /// Required issuer (`iss`) of JWTs, which are accepted in place of keys.
    #[arg(long, value_name = "ISSUER", requires_all = ["jwt_audience", "jwt_jwks"])]
    jwt_issuer: Option<String>,
    /// Required audience: `aud` must equal or contain it.
    #[arg(long, value_name = "AUDIENCE", requires = "jwt_issuer")]
    jwt_audience: Option<String>,
    /// JSON Web Key Set with the issuer's public keys: a file, or an http or https URL.
    ///
    /// A file is read again when it changes. A URL is fetched every five minutes, and when a token
    /// has an unknown key. If that fails, the last keys stay valid.
    #[arg(long, value_name = "FILE_OR_URL", requires = "jwt_issuer")]
    jwt_jwks: Option<String>,
    /// JWT claim that names the tenant. Each tenant has its own limits and share of the server, as
    /// a key does.
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    jwt_tenant_claim: String,
    /// JWT claim (space-separated string or array) that names the plan in the key file; `default`
    /// if none matches.
    #[arg(long, value_name = "CLAIM", default_value = "scope")]
    jwt_plan_claim: String,
    /// PEM file with the server certificate and its intermediates. Enables TLS for all connections.
    ///
    /// The file is read again when it changes.
    #[arg(
        long,
        visible_alias = "ssl_cert_file",
        value_name = "FILE",
        requires = "tls_key_file"
    )]
    tls_cert_file: Option<PathBuf>,
    /// PEM file with the private key of the certificate.
    #[arg(
        long,
        visible_alias = "ssl_key_file",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    tls_key_file: Option<PathBuf>,
    /// PEM file of CA certificates. Clients must present a certificate signed by one of them.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_client_ca_file: Option<PathBuf>,
}

impl Access {
    /// Sets the options for keys, tokens and TLS.
    pub(super) fn apply(&self, options: &mut Options) -> Result<(), String> {
        options.jwt = self.jwt()?;
        options.keys = match (&self.api_key_file, &self.api_key) {
            (Some(_), Some(_)) => {
                return Err("--api_key and --api_key_file exclude each other".to_owned());
            }
            (Some(file), None) => Some(KeySource::File(file.clone())),
            (None, Some(key)) => Some(KeySource::One(Digest::new(key.as_bytes()))),
            (None, None) => from_environment(),
        };
        if let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_key_file) {
            options.tls = Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: self.tls_client_ca_file.clone(),
            });
        }
        Ok(())
    }

    fn jwt(&self) -> Result<Option<JwtOptions>, String> {
        let (Some(issuer), Some(audience), Some(jwks)) =
            (&self.jwt_issuer, &self.jwt_audience, &self.jwt_jwks)
        else {
            return Ok(None);
        };
        Ok(Some(JwtOptions {
            issuer: issuer.clone(),
            audience: audience.clone(),
            jwks: jwks_source(jwks)?,
            tenant_claim: self.jwt_tenant_claim.clone(),
            plan_claim: self.jwt_plan_claim.clone(),
        }))
    }
}

/// Reads a key, which must not be empty or contain a comma.
fn key(text: &str) -> Result<String, String> {
    match text {
        "" => Err("it is empty".to_owned()),
        key if !key.contains(',') => Ok(key.to_owned()),
        _ => Err("for several keys, use a file (--api_key_file)".to_owned()),
    }
}

/// Reads the location of a key set: a file or a URL.
fn jwks_source(text: &str) -> Result<JwksSource, String> {
    if !text.contains("://") {
        return Ok(JwksSource::File(text.into()));
    }
    match Url::parse(text) {
        Ok(url) if ["https", "http"].contains(&url.scheme()) => {
            if url.scheme() == "http" {
                tracing::warn!(
                    "--jwt_jwks: the issuer's keys are fetched over plain http and can be replaced on the way; use https"
                );
            }
            Ok(JwksSource::Url(url))
        }
        _ => Err("--jwt_jwks: expected a file or an http or https URL".to_owned()),
    }
}

fn from_environment() -> Option<KeySource> {
    VARIABLES.into_iter().find_map(|name| {
        let key = variable(name)?;
        tracing::info!("requests need the key in the variable {name}");
        Some(KeySource::One(Digest::new(key.as_encoded_bytes())))
    })
}
