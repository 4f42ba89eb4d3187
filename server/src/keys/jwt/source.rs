//! Where an issuer's keys come from. Whatever goes wrong when they are read again, the last good
//! ones stay.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use axum::body::{Body, Bytes, to_bytes};
use graphmill_engine::read_regular;
use hyper::{StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::crypto::ring;
use tokio::time::{sleep, timeout};

use super::{KeySet, Tokens};
use crate::{keys::KeyError, poll_files::PolledFiles};

/// Most bytes of a set: a few dozen keys with their certificates.
const MAX_BYTES: usize = 1 << 20;
/// How long an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often an address is asked, whether or not there are other keys.
const EVERY: Duration = Duration::from_mins(5);
/// The pause before it is asked again: after a failure, and where tokens come whose key is not
/// known.
const PAUSE: Duration = Duration::from_secs(5);

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<KeySet, KeyError> {
    let wrong =
        |why: &dyn std::fmt::Display| KeyError(format!("`{}` (--jwt_jwks): {why}", path.display()));
    let size = fs::metadata(path).map_err(|error| wrong(&error))?.len();
    if size > MAX_BYTES as u64 {
        return Err(wrong(&"it has more than 1 MiB"));
    }
    let text = read_regular(path).map_err(|error| wrong(&error))?;
    KeySet::parse(&text).map_err(|why| wrong(&why))
}

/// Reads a file again when it changes.
pub(super) async fn follow(path: PathBuf, opened: PolledFiles, tokens: Weak<Tokens>) {
    let reload = move || {
        let Some(tokens) = tokens.upgrade() else {
            return false;
        };
        match read(&path) {
            Ok(keys) => tokens.take(keys),
            Err(error) => tracing::error!("the issuer's keys stay as they were: {error}"),
        }
        true
    };
    opened.follow(reload).await;
}

type HttpsClient = Client<HttpsConnector<HttpConnector>, Body>;

/// Asks an address now and then, and when tokens come whose key is not known.
pub(super) async fn ask(url: Uri, tokens: Weak<Tokens>) {
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(ring::default_provider())
        .map(|builder| builder.https_or_http().enable_http1().build());
    let client: HttpsClient = match connector {
        Ok(connector) => Client::builder(TokioExecutor::new()).build(connector),
        Err(error) => {
            tracing::error!("the issuer's keys cannot be asked for: {error}");
            return;
        }
    };
    // A failure is told once, for as long as it stays the same.
    let mut told = String::new();
    loop {
        let answered = match timeout(PATIENCE, fetch(&client, &url)).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        let Some(tokens) = tokens.upgrade() else {
            return;
        };
        let pause = match answered {
            Ok(keys) => {
                tokens.take(keys);
                told.clear();
                EVERY
            }
            Err(why) => {
                if why != told {
                    tracing::error!(
                        "the issuer's keys stay as they were: `{url}` (--jwt_jwks): {why}"
                    );
                    told = why;
                }
                PAUSE
            }
        };
        let wanted = Arc::clone(&tokens.wanted);
        drop(tokens);
        sleep(PAUSE).await;
        // Running out of time is what usually happens.
        let _ = timeout(pause.saturating_sub(PAUSE), wanted.notified()).await;
    }
}

async fn fetch(client: &HttpsClient, url: &Uri) -> Result<KeySet, String> {
    let answer = client.get(url.clone()).await.map_err(|error| {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            why = format!("{why}: {error}");
            source = error.source();
        }
        why
    })?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answers with status {}", answer.status()));
    }
    let body: Bytes = to_bytes(Body::new(answer.into_body()), MAX_BYTES)
        .await
        .map_err(|error| error.to_string())?;
    KeySet::parse(&body)
}
