//! Images that requests name by URLs or paths. They are fetched before a graph gets the request, from
//! hosts and the folder that the server's options name and from nowhere else.
//!
//! A name is looked up once, and the connection goes to an address that was found then: the owner
//! of a name cannot point it at a machine of the server's own network, before or after the check.
//! Redirects are not followed, because they would lead elsewhere.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use graphmill_calculators::{http::RemoteImage, payload::JsonBody};
use hyper::{HeaderMap, StatusCode, header, http::uri::Authority};
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use tokio::{net::lookup_host, sync::Semaphore, task::spawn_blocking, time::timeout};

use crate::{
    bodies::Share,
    errors::{Cause, Failure},
    http_client,
    owner::Owner,
};

/// Most images of a request that are fetched.
const MAX_IMAGES: usize = 16;
/// Requests of one owner whose images are fetched at the same time. More wait, no more than there can
/// be connections.
const MAX_FETCHING: usize = 16;
/// What is said if work on images panics.
const PANICKED: &str = "the images of the request could not be read";
/// How long an image may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A host that images may be fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaHost {
    name: String,
    /// That of the scheme, unless the entry has one.
    port: Option<u16>,
}

impl FromStr for MediaHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let authority = text.parse::<Authority>().ok();
        let is_host = |it: &Authority| !it.host().is_empty() && !text.contains(['@', '*']);
        let host = authority.filter(is_host).ok_or(
            "expected the name of a host, such as `images.example.com`, or one with a port",
        )?;
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

/// Fetches images.
pub(crate) struct Media {
    hosts: Vec<MediaHost>,
    /// The folder that files are read from, without symbolic links.
    folder: Option<PathBuf>,
    client: Client,
    /// By owner: those that fetch something.
    fetching: Mutex<HashMap<Option<Owner>, Arc<Semaphore>>>,
}

impl Media {
    /// Fetches from these hosts, and reads files in this folder.
    pub(crate) fn new(hosts: Vec<MediaHost>, folder: Option<PathBuf>) -> reqwest::Result<Self> {
        let client = http_client::builder().dns_resolver(Public);
        Ok(Self {
            hosts,
            folder,
            client: client.build()?,
            fetching: Mutex::default(),
        })
    }

    /// The request with the images themselves in the place of their URLs; none if it has no such
    /// URL.
    pub(crate) async fn fetch(
        &self,
        json: &Arc<JsonBody>,
        owner: Option<&Owner>,
        share: &Arc<Share>,
    ) -> Result<Option<JsonBody>, Failure> {
        let asked = Arc::clone(json);
        let find = move || RemoteImage::all(&asked);
        let images = share.beside(find, PANICKED).await??;
        if images.is_empty() {
            return Ok(None);
        }
        if let Some(image) = images.get(MAX_IMAGES) {
            let why = format!("is one image too many: {MAX_IMAGES} of a request are fetched");
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
                let why = format!("is the URL of an image that did not come within {PATIENCE:?}");
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

    /// The turns of an owner: slow hosts that one asks for hold up no other.
    fn turns(&self, owner: Option<&Owner>) -> Arc<Semaphore> {
        let mut all = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = all.entry(owner.cloned());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(MAX_FETCHING))))
    }

    /// The URL of an image, if it may be fetched.
    fn allowed(&self, image: &RemoteImage) -> Result<Url, Failure> {
        let url =
            Url::parse(&image.url).map_err(|_| refused(image, "is no URL that can be fetched"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(image, "is a URL with a user name or a password"));
        }
        if self.hosts.iter().any(|host| host.is_of(&url)) {
            return Ok(url);
        }
        let why = "is the URL of an image on a host that this server fetches none from (--allowed_media_domains)";
        Err(refused(image, why).with_code("unsupported_parameter"))
    }

    /// Reads a file in the folder. What lies elsewhere is as if it were not there.
    async fn read(
        &self,
        image: &RemoteImage,
        path: PathBuf,
        share: &Arc<Share>,
    ) -> Result<Bytes, Failure> {
        let Some(folder) = self.folder.clone() else {
            let why = "is the path of an image, and this server reads no files (--allowed_local_media_path)";
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
        match read {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => {
                let why = "is the path of no file in the folder that this server reads images from (--allowed_local_media_path)";
                Err(refused(image, why))
            }
            Err(failure) => Err(too_large(image, failure)),
        }
    }

    async fn get(
        &self,
        image: &RemoteImage,
        url: Url,
        share: &Arc<Share>,
    ) -> Result<Bytes, Failure> {
        let answer = self.client.get(url).send().await.map_err(|error| {
            let reason = http_client::reason(&error);
            let why = format!("is the URL of an image that cannot be fetched: {reason}");
            refused(image, &why)
        })?;
        let status = answer.status();
        if status != StatusCode::OK {
            let why = format!("is the URL of an image, and its host answers with status {status}");
            return Err(refused(image, &why));
        }
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("image/") {
            let why = "is the URL of something that is no image, as its host says";
            return Err(refused(image, why));
        }
        // Bytes are taken as they are, whatever the answer says of an encoding.
        let headers = HeaderMap::new();
        let read = share.read(&headers, Body::new(reqwest::Body::from(answer)));
        read.await.map_err(|failure| match failure.cause {
            Cause::BadRequest => refused(image, "is the URL of an image that did not come whole"),
            _ => too_large(image, failure),
        })
    }
}

/// The path of an image that is a file here.
fn file_path(image: &RemoteImage) -> Option<Result<PathBuf, Failure>> {
    if image.url.starts_with('/') {
        return Some(Ok(image.url.clone().into()));
    }
    let url = Url::parse(&image.url).ok();
    let url = url.filter(|url| url.scheme() == "file")?;
    let path = url.to_file_path();
    Some(path.map_err(|()| refused(image, "is the URL of no file of this machine")))
}

/// Opens a file in a folder, wherever links lead to, and tells its size.
fn open_in(folder: &Path, path: &Path) -> io::Result<(File, u64)> {
    let path = fs::canonicalize(path)?;
    if !path.starts_with(folder) || !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Tells of an image with too many bytes which one it is.
fn too_large(image: &RemoteImage, failure: Failure) -> Failure {
    if failure.cause != Cause::BodyTooLarge {
        return failure;
    }
    let why = "is an image with more bytes than a body can have (--max_body_bytes)";
    refused(image, why).with_code("image_too_large")
}

fn refused(image: &RemoteImage, why: &str) -> Failure {
    let message = format!("`{}` {why}", image.field);
    Failure::new(Cause::BadRequest, message)
        .of_field(image.field.clone())
        .with_code("invalid_image_url")
}

/// Finds addresses of names, if all of them are public. What is an address already is not looked
/// up: those that may be used are named one by one.
#[derive(Clone, Copy, Debug)]
struct Public;

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup_host((name.as_str(), 0)).await?.collect();
            if found.iter().all(|address| is_public(address.ip())) {
                return Ok(Box::new(found.into_iter()) as Addrs);
            }
            let why = "its name stands for an address that is not public";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into())
        })
    }
}

/// Whether an address is one of the Internet at large.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        // Those that carry an address of version 4, and what is for documents, have places among these.
        IpAddr::V6(address) => match address.segments() {
            [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
            [0x3fff, second, ..] => second >= 0x1000,
            [first, ..] => (0x2000..0x4000).contains(&first) && first != 0x2002,
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    // This network; shared between carriers; protocol assignments; relays; measurements; reserved.
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
