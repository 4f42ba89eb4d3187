//! The source of an issuer's keys. If reading them again fails, the last valid ones stay.

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

/// Maximum size of a key set in bytes, enough for a few dozen keys with certificates.
const MAX_BYTES: usize = 1 << 20;
/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval for requesting the URL.
const EVERY: Duration = Duration::from_mins(5);
/// Pause before the next request: after a failure, and if tokens have an unknown key.
const PAUSE: Duration = Duration::from_secs(5);

/// Reads a key set from a file.
pub(super) fn read(path: &Path) -> Result<KeySet, KeyError> {
    let wrong =
        |why: &dyn std::fmt::Display| KeyError(format!("`{}` (--jwt_jwks): {why}", path.display()));
    let size = fs::metadata(path).map_err(|error| wrong(&error))?.len();
    if size > MAX_BYTES as u64 {
        return Err(wrong(&"it is larger than 1 MiB"));
    }
    let text = read_regular(path).map_err(|error| wrong(&error))?;
    KeySet::parse(&text).map_err(|why| wrong(&why))
}

/// Reads the file again when it changes.
pub(super) async fn follow(path: PathBuf, opened: FileStamps, tokens: Weak<Tokens>) {
    let reload = move || {
        let Some(tokens) = tokens.upgrade() else {
            return false;
        };
        match read(&path) {
            Ok(keys) => tokens.take(keys),
            Err(error) => tracing::error!("the issuer's keys were not updated: {error}"),
        }
        true
    };
    file_watch::follow(opened, reload).await;
}

/// Requests the URL regularly, and when tokens have an unknown key.
pub(super) async fn ask(url: Url, tokens: Weak<Tokens>) {
    let client = match http_client::builder_for(&url).build() {
        Ok(client) => client,
        Err(error) => {
            let reason = http_client::reason(&error);
            tracing::error!("the issuer's keys cannot be requested: {reason}");
            return;
        }
    };
    // A failure is logged once, until it changes.
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
                        "the issuer's keys were not updated: `{url}` (--jwt_jwks): {why}"
                    );
                    told = why;
                }
                PAUSE
            }
        };
        let wanted = Arc::clone(&tokens.wanted);
        drop(tokens);
        sleep(PAUSE).await;
        // Usually ends by the timeout.
        let _ = timeout(pause.saturating_sub(PAUSE), wanted.notified()).await;
    }
}

async fn fetch(client: &Client, url: &Url) -> Result<KeySet, String> {
    let answer = client.get(url.clone()).send().await;
    let answer = answer.map_err(|error| http_client::reason(&error))?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answered with status {}", answer.status()));
    }
    let body = to_bytes(Body::new(reqwest::Body::from(answer)), MAX_BYTES)
        .await
        .map_err(|error| error.to_string())?;
    KeySet::parse(&body)
}
