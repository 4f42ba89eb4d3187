//! The web page at `/`, and that of `/docs`: the build output of `web/`, embedded in the program.
//! It is the same for everybody and contains no data of the server, so it needs no key; it requests
//! its data like any client.

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{LazyLock, OnceLock},
};

use axum::{
    extract::Path,
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use include_dir::{Dir, include_dir};
use ring::digest::{SHA256, digest};

use super::operation::{Answer, Group, Operation, Side};

/// Content security policy of the page. It allows only requests to the server, and code and styles
/// from it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Content security policy of `/docs`. It also allows inline code and styles, because the file must
/// work without the other page.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                           img-src data:; connect-src 'self'; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// File that is served at `/`.
const START: &str = "index.html";

/// File that is served at `/docs`.
const DOCS: &str = "docs.html";

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let pages = [
        Operation::get("/", start).about(Group::Server, "The web page: chat, graphs, playground and server"),
        Operation::get("/page/{*file}", file).about(Group::Server, "A file of the page").listed(false),
    ];
    pages.map(|page| page.answers(Answer::Page).on(Side::Both)).into()
}

async fn start(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    answer((START, POLICY), method, uri, &headers).await
}

/// Serves the page that shows the API documentation.
pub(super) async fn docs(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    answer((DOCS, DOCS_POLICY), method, uri, &headers).await
}

async fn file(Path(name): Path<String>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    answer((&name, POLICY), method, uri, &headers).await
}

async fn answer(
    (name, policy): (&str, &'static str),
    method: Method,
    uri: Uri,
    headers: &HeaderMap,
) -> Response {
    let Some(file) = FILES.get(name) else {
        return super::unknown_route(method, uri).await.into_response();
    };
    let always = [
        (header::ETAG, file.etag.as_str()),
        // Browsers store it, and revalidate it with its tag, because an upgraded server has another
        // page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    if is_known(file, headers) {
        return (StatusCode::NOT_MODIFIED, always).into_response();
    }
    let of_content = [(header::CONTENT_TYPE, file.media_type)];
    if takes_gzip(headers) {
        let gzip = [(header::CONTENT_ENCODING, "gzip")];
        return (always, of_content, gzip, file.gzip()).into_response();
    }
    (always, of_content, file.bytes).into_response()
}

/// Returns true if the client has the current file.
fn is_known(file: &PageFile, headers: &HeaderMap) -> bool {
    listed(headers, header::IF_NONE_MATCH).any(|tag| tag == "*" || tag == file.etag)
}

/// Returns the elements of a comma-separated header.
fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let all = headers.get_all(name).into_iter();
    let all = all.filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(',')).map(str::trim)
}

/// Returns true if the client accepts gzip. A weight of 0 excludes it.
fn takes_gzip(headers: &HeaderMap) -> bool {
    listed(headers, header::ACCEPT_ENCODING).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        let is_wanted = weight.parse().is_ok_and(|weight: f32| weight > 0.0);
        name.trim().eq_ignore_ascii_case("gzip") && is_wanted
    })
}

/// Output of `scripts/web.sh`, which is committed so that cargo needs no Node.
static BUILT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../web/dist");

static FILES: LazyLock<HashMap<&'static str, PageFile>> = LazyLock::new(|| {
    let named = BUILT.files().filter_map(|file| {
        let name = file.path().to_str()?;
        Some((name, PageFile::new(name, file.contents())))
    });
    named.collect()
});

/// Length in bytes of the part of a digest that is used as a tag.
const TAG_BYTES: usize = 12;

/// A file of the page with its headers.
struct PageFile {
    bytes: &'static [u8],
    /// Value of the header `content-type`.
    media_type: &'static str,
    /// Weak tag, because the compressed file has the same one.
    etag: String,
    /// Compressed contents, created at the first request for them.
    gzip: OnceLock<Bytes>,
}

impl PageFile {
    fn new(name: &str, bytes: &'static [u8]) -> Self {
        let digest = digest(&SHA256, bytes);
        let tag = &digest.as_ref()[..TAG_BYTES];
        Self {
            bytes,
            media_type: media_type(name),
            etag: format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(tag)),
            gzip: OnceLock::new(),
        }
    }

    /// Returns the compressed contents, and compresses them at the first call.
    fn gzip(&self) -> Bytes {
        let compressed = self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to a vector cannot fail.
            let _ = encoder.write_all(self.bytes);
            encoder.finish().unwrap_or_default().into()
        });
        compressed.clone()
    }
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}
