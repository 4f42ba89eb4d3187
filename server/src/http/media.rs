//! Images that requests name by URL or path. They are fetched before a graph gets the request, only
//! from the hosts and the folder in the server's options.
//!
//! A host name is resolved once, and the connection uses an address found then. So the owner of a
//! name cannot redirect it to a machine in the server's own network, before or after the check.
//! Redirects are not followed, because they would lead to other hosts.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use graphmill_calculators::{http::RemoteImage, payload::JsonBody};
use hyper::{HeaderMap, StatusCode, header, http::uri::Authority};
use parking_lot::Mutex;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use tokio::{net::lookup_host, sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::{
    bodies::Share,
    errors::{Cause, Failure, Result},
    http_client,
    owner::Owner,
};

/// Maximum number of images that are fetched for a request.
const MAX_IMAGES: usize = 16;
/// Maximum number of requests of one owner whose images are fetched at the same time. Others wait;
/// the limit of connections bounds them.
const MAX_FETCHING: usize = 16;
/// Error message if work on images panics.
const PANICKED: &str = "the images of the request could not be read";
/// Time limit for fetching an image.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host from which images may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaHost {
    name: String,
    /// Port of the entry; `None` means the default of the scheme.
    port: Option<u16>,
}

impl FromStr for MediaHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text.parse::<Authority>().ok();
        let is_host = |it: &Authority| !it.host().is_empty() && !text.contains(['@', '*']);
        let why = "expected the name of a host, such as `images.example.com`, or one with a port";
        let host = authority.filter(is_host).ok_or(why)?;
        Ok(Self {
            name: host.host().to_ascii_lowercase(),
            port: host.port_u16(),
        })
    }
}

impl MediaHost {
    fn is_of(&self, url: &Url) -> bool {
        let usual = if url.scheme() == "https" { 443 } else { 80 };
        url.host_str() == Some(&self.name)
            && url.port().unwrap_or(usual) == self.port.unwrap_or(usual)
    }
}

/// Fetcher of images, with limits per owner.
pub(crate) struct Media {
    hosts: Vec<MediaHost>,
    /// Folder of readable files. Its path has no symbolic links.
    folder: Option<PathBuf>,
    client: Client,
    /// Permits by owner, for owners that are fetching.
    fetching: Mutex<HashMap<Option<Owner>, Arc<Semaphore>>>,
}

impl Media {
    /// Creates a fetcher for these hosts, and for files in this folder.
    pub(crate) fn new(hosts: Vec<MediaHost>, folder: Option<PathBuf>) -> reqwest::Result<Self> {
        let client = http_client::builder().dns_resolver(Public);
        Ok(Self {
            hosts,
            folder,
            client: client.build()?,
            fetching: Mutex::default(),
        })
    }

    /// Returns the request with its image URLs replaced by the images; `None` if it has no such
    /// URL.
    pub(crate) async fn fetch(
        &self,
        json: &Arc<JsonBody>,
        owner: Option<&Owner>,
        share: &Arc<Share>,
    ) -> Result<Option<JsonBody>> {
        let asked = Arc::clone(json);
        let find = move || RemoteImage::all(&asked);
        let images = share.beside(find, PANICKED).await??;
        if images.is_empty() {
            return Ok(None);
        }
        if let Some(image) = images.get(MAX_IMAGES) {
            let why = format!("more than {MAX_IMAGES} images in a request");
            return Err(refused(image, &why).with_code("too_many_images"));
        }
        let closed = |_| Failure::stopping();
        let turns = self.turns(owner);
        let _turn = turns.acquire().await.map_err(closed)?;
        let mut files = Vec::new();
        for image in &images {
            let fetching = async {
                match file_path(image) {
                    Some(path) => self.read(image, path?, share).await,
                    None => self.get(image, self.allowed(image)?, share).await,
                }
            };
            let fetched = timeout(PATIENCE, fetching).await;
            let file = fetched.unwrap_or_else(|_| {
                let why = format!("the image was not downloaded within {PATIENCE:?}");
                Err(refused(image, &why))
            })?;
            files.push(file);
        }
        let asked = Arc::clone(json);
        let replace = move || {
            let url = |file: Bytes| format!("data:image/*;base64,{}", STANDARD.encode(file));
            RemoteImage::replace(&asked, &images, files.into_iter().map(url).collect())
        };
        Ok(Some(share.beside(replace, PANICKED).await??))
    }

    /// Returns the permits of an owner. Each owner has its own, so that slow hosts of one do not
    /// delay others.
    fn turns(&self, owner: Option<&Owner>) -> Arc<Semaphore> {
        let mut all = self.fetching.lock();
        all.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = all.entry(owner.cloned());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(MAX_FETCHING))))
    }

    /// Returns the URL of an image, if it may be fetched.
    fn allowed(&self, image: &RemoteImage) -> Result<Url> {
        let url = Url::parse(&image.url).map_err(|_| refused(image, "not a valid URL"))?;
        if !url.username().is_empty() || url.password().is_some() {
            let why = "the URL must not contain a user name or password";
            return Err(refused(image, why));
        }
        if self.hosts.iter().any(|host| host.is_of(&url)) {
            return Ok(url);
        }
        let why = "the host of the image is not allowed (--allowed_media_domains)";
        Err(refused(image, why).with_code("unsupported_parameter"))
    }

    /// Reads a file in the folder. A file outside of it gets the same error as a missing one.
    async fn read(&self, image: &RemoteImage, path: PathBuf, share: &Arc<Share>) -> Result<Bytes> {
        let Some(folder) = self.folder.clone() else {
            let why = "paths of images are not allowed (--allowed_local_media_path)";
            return Err(refused(image, why).with_code("unsupported_parameter"));
        };
        let mut lease = share.lease();
        let reading = spawn_blocking(move || {
            let Ok((file, size)) = open_in(&folder, &path) else {
                return Ok(None);
            };
            lease.take(usize::try_from(size).unwrap_or(usize::MAX))?;
            let mut bytes = Vec::new();
            let read = file.take(size).read_to_end(&mut bytes);
            Ok::<_, Failure>(read.is_ok().then(|| lease.keeps(bytes.into())))
        });
        let read = reading.await.map_err(|_| Failure::stopping())?;
        let read = read.map_err(|failure| too_large(image, failure))?;
        let why = "no such file in the folder of images (--allowed_local_media_path)";
        read.ok_or_else(|| refused(image, why))
    }

    async fn get(&self, image: &RemoteImage, url: Url, share: &Arc<Share>) -> Result<Bytes> {
        let answer = self.client.get(url).send().await.map_err(|error| {
            let reason = http_client::reason(&error);
            let why = format!("the image cannot be downloaded: {reason}");
            refused(image, &why)
        })?;
        let status = answer.status();
        if status != StatusCode::OK {
            let why = format!("the host of the image answered with status {status}");
            return Err(refused(image, &why));
        }
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("image/") {
            let why = "the `content-type` is not that of an image";
            return Err(refused(image, why));
        }
        // The bytes are used as sent; a `content-encoding` is ignored.
        let headers = HeaderMap::new();
        let read = share.read(&headers, Body::new(reqwest::Body::from(answer)));
        read.await.map_err(|failure| match failure.cause {
            Cause::BadRequest => refused(image, "the image download was cut short"),
            _ => too_large(image, failure),
        })
    }
}

/// Returns the path of an image that is a local file.
fn file_path(image: &RemoteImage) -> Option<Result<PathBuf>> {
    if image.url.starts_with('/') {
        return Some(Ok(image.url.clone().into()));
    }
    let url = Url::parse(&image.url).ok();
    let url = url.filter(|url| url.scheme() == "file")?;
    let path = url.to_file_path();
    Some(path.map_err(|()| refused(image, "the URL is not that of a local file")))
}

/// Opens a file and returns its size. The target of symbolic links must be in the folder, too.
fn open_in(folder: &Path, path: &Path) -> io::Result<(File, u64)> {
    let path = fs::canonicalize(path)?;
    if !path.starts_with(folder) || !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Adds the name of the image to the error that it is too large.
fn too_large(image: &RemoteImage, failure: Failure) -> Failure {
    if failure.cause != Cause::BodyTooLarge {
        return failure;
    }
    let why = "the image is larger than the limit of a request body (--max_body_bytes)";
    refused(image, why).with_code("image_too_large")
}

fn refused(image: &RemoteImage, why: &str) -> Failure {
    let message = format!("`{}`: {why}", image.field);
    let failure = Failure::new(Cause::BadRequest, message).with_field(image.field.clone());
    failure.with_code("invalid_image_url")
}

/// Resolver that returns addresses only if all of them are public. IP addresses in URLs are not
/// resolved; the allowed ones are listed one by one.
#[derive(Clone, Copy, Debug)]
struct Public;

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            if found.iter().all(|address| is_public(address.ip())) {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let why = "its name resolves to an address that is not public";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into())
        })
    }
}

/// Returns true if an address is reachable from the whole Internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        // The excluded ranges embed IPv4 addresses or are reserved for documentation.
        IpAddr::V6(address) => match address.segments() {
            [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
            [0x3fff, second, ..] => second >= 0x1000,
            [first, ..] => (0x2000..0x4000).contains(&first) && first != 0x2002,
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    // In order: this network, carrier-grade NAT, protocol assignments, relays, benchmarks,
    // reserved.
    let is_special = matches!(
        address.octets(),
        [0 | 240.., ..]
            | [100, 64..=127, ..]
            | [192, 0, 0, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
    );
    !(is_special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        let is_public = |text: &str| is_public(text.parse().expect("an address"));
        for address in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn hosts_are_named_with_or_without_a_port() {
        let host = |text: &str| text.parse::<MediaHost>();
        let is_of = |text: &str, url: &str| {
            let url = url.parse().expect("a URL");
            host(text).expect("a host").is_of(&url)
        };
        assert!(is_of("a.example", "https://A.example/x?y"));
        assert!(is_of("a.example", "http://a.example:80/"));
        assert!(is_of("127.0.0.1:81", "http://127.0.0.1:81/"));
        assert!(is_of("[::1]:81", "http://[::1]:81/"));
        assert!(!is_of("a.example", "https://a.example:80/"));
        assert!(!is_of("a.example", "https://b.a.example/"));
        assert!(!is_of("a.example", "https://a.example.b/"));
        assert!(!is_of("127.0.0.1:81", "http://127.0.0.1/"));
        for wrong in ["", "a b", "http://a", "a/b", "u@a", "*.a", ":80"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }
}
