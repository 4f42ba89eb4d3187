//! Host names of this server.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use axum::{
    extract::Request,
    http::{HeaderValue, Version, header, uri::Authority},
};

use super::origins;
use crate::errors::{Cause, Failure, Result};

/// Suffixes of names that cannot be registered, because they are private to a network. An attacker
/// who controls them there can reach the server anyway.
const PRIVATE: [&str; 5] = [".localhost", ".local", ".internal", ".home.arpa", ".svc"];

/// The hosts that a server answers for.
#[derive(Debug)]
pub(super) struct Hosts {
    any: bool,
    /// True if only this machine can reach it.
    is_local: bool,
    /// Names in lower case, without a trailing dot.
    names: HashSet<String>,
    /// Suffixes of names, each with its leading dot.
    ends: Vec<String>,
}

impl Hosts {
    pub(super) fn new(addresses: &[SocketAddr], further: &[String]) -> Self {
        let is_local = addresses.iter().all(|address| address.ip().is_loopback());
        let mut hosts = Self {
            any: false,
            is_local,
            names: HashSet::from(["localhost".to_owned()]),
            ends: vec![".localhost".to_owned()],
        };
        if !is_local {
            let own = rustix::system::uname();
            let own = own.nodename().to_string_lossy();
            hosts.names.insert(normal(&own));
            hosts.ends.extend(PRIVATE.map(str::to_owned));
        }
        for name in further.iter().map(|name| name.trim()) {
            if name == "*" {
                hosts.any = true;
            } else if let Some(end) = name.strip_prefix('*').filter(|end| end.starts_with('.')) {
                hosts.ends.push(normal(end));
            } else {
                let name = HostName::read(name).map_or_else(|| normal(name), |name| name.host);
                hosts.names.insert(name);
            }
        }
        hosts
    }

    /// Returns true if the server answers for `name`, which may have a port.
    pub(super) fn include(&self, name: &str) -> bool {
        let Some(name) = HostName::read(name) else {
            return self.any;
        };
        if self.any || self.names.contains(&name.host) {
            return true;
        }
        if let Ok(address) = name.host.parse::<IpAddr>() {
            // DNS rebinding needs a name, not a numeric host.
            return !self.is_local || address.to_canonical().is_loopback();
        }
        let is_of = |end: &String| name.host.len() > end.len() && name.host.ends_with(end);
        // A name without a dot cannot be registered either. It belongs to a container or a service.
        let is_single = !self.is_local && !name.host.contains('.');
        is_single || self.ends.iter().any(is_of)
    }
}

fn normal(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_suffix('.').unwrap_or(&name).to_owned()
}

/// A host, optionally with a port.
pub(super) struct HostName {
    /// Host in lower case, without a trailing dot; an IPv6 address without brackets and zone.
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl HostName {
    /// Parses a host; `None` if it is not valid.
    pub(super) fn read(text: &str) -> Option<Self> {
        if text.contains('@') {
            return None;
        }
        let authority: Authority = text.parse().ok()?;
        let port = match &text[authority.host().len()..] {
            "" | ":" => None,
            port => Some(port.strip_prefix(':')?.parse().ok()?),
        };
        let mut host = normal(authority.host());
        if let Some(address) = host.strip_prefix('[') {
            let address = address.strip_suffix(']')?;
            let address = address.split_once('%').map_or(address, |(it, _)| it);
            host = address.parse::<Ipv6Addr>().ok()?.to_string();
        }
        (!host.is_empty()).then_some(Self { host, port })
    }
}

/// The destination of a request, from its header and its URL.
pub(super) struct Destination<'a> {
    host: Option<&'a str>,
    authority: Option<&'a str>,
}

impl<'a> Destination<'a> {
    pub(super) fn from_request(request: &'a Request) -> Result<Self> {
        let wrong =
            |message: &str| Failure::new(Cause::BadRequest, message).with_code("invalid_host");
        let mut hosts = request.headers().get_all(header::HOST).into_iter();
        let (host, second) = (hosts.next(), hosts.next());
        if second.is_some() {
            return Err(wrong("there is more than one `Host`"));
        }
        let host = host.map(HeaderValue::to_str).transpose();
        let host = host.map_err(|_| wrong("`Host` is not visible ASCII"))?;
        let authority = request.uri().authority().map(Authority::as_str);
        let asked = Self { host, authority };
        if request.version() == Version::HTTP_11 && host.is_none() {
            return Err(wrong("`Host` is missing"));
        }
        if let Some(not) = asked.names().find(|name| HostName::read(name).is_none()) {
            let shown = super::shown(not);
            return Err(wrong(&format!("`{shown}` is not a host")));
        }
        Ok(asked)
    }

    /// Returns the names that the request contains. An HTTP/1.0 client may send none, and is not a
    /// browser.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.host.into_iter().chain(self.authority)
    }

    /// Returns true if a page of `origin` was loaded from the destination of the request.
    pub(super) fn is_same_origin(&self, origin: &str) -> bool {
        let Some((scheme, page)) = origin.split_once("://") else {
            return false;
        };
        let (Some(page), Some(usual)) = (HostName::read(page), origins::usual_port(scheme)) else {
            return false;
        };
        let mut asked = self.names().filter_map(HostName::read).peekable();
        // If TLS ends before this server, only the page's origin shows it: a host without a port
        // has the default port of the page's scheme.
        asked.peek().is_some()
            && asked.all(|name| {
                name.host == page.host && name.port.unwrap_or(usual) == page.port.unwrap_or(usual)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(addresses: &[&str], further: &[&str]) -> Hosts {
        let addresses = addresses.iter().map(|it| it.parse().expect("an address"));
        let further: Vec<String> = further.iter().map(|it| (*it).to_owned()).collect();
        Hosts::new(&addresses.collect::<Vec<_>>(), &further)
    }

    #[test]
    fn on_loopback_only_loopback_is_meant() {
        let hosts = hosts(&["127.0.0.1:1", "[::1]:1"], &[]);
        for own in [
            "localhost",
            "LocalHost:80",
            "localhost.",
            "a.localhost",
            "127.0.0.1:8000",
            "127.8.9.1",
            "[::1]",
            "[::1]:9",
            "[::ffff:127.0.0.1]",
            "[0:0::1]:1",
        ] {
            assert!(hosts.include(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.localhost.example",
            "10.0.0.1",
            "[fe80::1]",
            "notlocalhost",
            "localhost@evil.example",
            "evil@localhost",
            "",
            ":80",
            "localhost:x",
            "[::1",
            "0.0.0.0",
            "127.1",
            ".localhost",
        ] {
            assert!(!hosts.include(foreign), "{foreign}");
        }
    }

    #[test]
    fn elsewhere_numbers_and_names_that_nobody_can_register_are_meant() {
        let hosts = hosts(
            &["0.0.0.0:1"],
            &[
                "models.example.com",
                "*.api.example.com",
                "Shouted.Example:80",
            ],
        );
        for own in [
            "10.0.0.7:8000",
            "[fe80::1%25eth0]:1",
            "localhost",
            "graphmill",
            "graphmill.default.svc",
            "graphmill.default.svc.cluster.local",
            "host.docker.internal",
            "MODELS.example.com.:443",
            "a.api.example.com",
            "shouted.example",
        ] {
            assert!(hosts.include(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "example.com",
            "api.example.com",
            "xmodels.example.com",
            "svc.evil.example",
        ] {
            assert!(!hosts.include(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_star_is_any() {
        assert!(hosts(&["127.0.0.1:1"], &["*"]).include("anything.example"));
    }
}
