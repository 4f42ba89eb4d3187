//! Where an issuer's keys come from. Whatever goes wrong when they are read again, the last good
//! ones stay.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use axum::body::{Body, to_bytes};
use graphmill_engine::{FileStamps, read_regular};
use reqwest::{Client, StatusCode, Url};
use tokio::time::{sleep, timeout};

use super::{KeySet, Tokens};
use crate::{file_watch, http_client, keys::KeyError};

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
pub(super) async fn follow(path: PathBuf, opened: FileStamps, tokens: Weak<Tokens>) {
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
    file_watch::follow(opened, reload).await;
}

/// Asks an address now and then, and when tokens come whose key is not known.
pub(super) async fn ask(url: Url, tokens: Weak<Tokens>) {
    let client = match http_client::builder_for(&url).build() {
        Ok(client) => client,
        Err(error) => {
            let reason = http_client::reason(&error);
            tracing::error!("the issuer's keys cannot be asked for: {reason}");
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

async fn fetch(client: &Client, url: &Url) -> Result<KeySet, String> {
    let answer = client.get(url.clone()).send().await;
    let answer = answer.map_err(|error| http_client::reason(&error))?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answers with status {}", answer.status()));
    }
    let body = to_bytes(Body::new(reqwest::Body::from(answer)), MAX_BYTES)
        .await
        .map_err(|error| error.to_string())?;
    KeySet::parse(&body)
}
