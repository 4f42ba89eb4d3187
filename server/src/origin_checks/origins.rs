//! Sites whose pages may send requests and read answers.

use axum::http::uri::Scheme;

/// The origins whose pages are allowed.
#[derive(Debug, Default)]
pub(super) struct Origins {
    any: bool,
    patterns: Vec<Origin>,
}

/// An origin, or a pattern of origins: `https://*.example.com`, `http://localhost:*`.
#[derive(Debug, PartialEq)]
struct Origin {
    scheme: Scheme,
    /// Host in lower case. A pattern can begin with `*`, or be `*`.
    host: String,
    /// Port in digits; empty for the default port of the scheme. A pattern can be `*`.
    port: String,
}

/// Returns the default port of a scheme.
pub(super) fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Returns an entry of `--allowed_origins` unchanged, if a page can have such an origin.
///
/// # Errors
/// If it cannot; the message lists the allowed forms.
pub(crate) fn checked(entry: &str) -> Result<String, String> {
    let is_host = |host: &str| !host.is_empty() && !host.contains(['*', '/', '?', '#', '@', ' ']);
    let fits_some = |origin: Origin| {
        let host = &*origin.host;
        host == "*" || is_host(host.strip_prefix("*.").unwrap_or(host))
    };
    let is_empty_or_any = ["", "*"].contains(&entry.trim());
    if is_empty_or_any || Origin::read(entry).is_some_and(fits_some) {
        return Ok(entry.to_owned());
    }
    let forms = "`https://chat.example.com`, `https://*.example.com`, `http://localhost:*`, `chrome-extension://*`, `null` and `*`";
    let why = format!("not an origin of a page: expected one of the forms {forms}");
    Err(why)
}

impl Origin {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('/').to_ascii_lowercase();
        // Pages of files and sandboxes have the origin `null`.
        let none = (text == "null").then_some(("null", "null"));
        let (scheme, place) = text.split_once("://").or(none)?;
        let is_port = |port: &str| port == "*" || port.parse::<u16>().is_ok();
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port),
            _ => (place, ""),
        };
        let usual = usual_port(scheme).map(|port| port.to_string());
        Some(Self {
            scheme: scheme.parse().ok()?,
            host: host.to_owned(),
            port: usual
                .map_or(port, |usual| if port == usual { "" } else { port })
                .to_owned(),
        })
    }

    fn fits(&self, origin: &Self) -> bool {
        let is_host = match self.host.strip_prefix('*') {
            Some(end) => origin.host.len() > end.len() && origin.host.ends_with(end),
            None => self.host == origin.host,
        };
        is_host && self.scheme == origin.scheme && (self.port == "*" || self.port == origin.port)
    }
}

impl Origins {
    /// Creates the list. Entries that are not valid match nothing.
    pub(super) fn new(allowed: &[String]) -> Self {
        let any = allowed.iter().any(|origin| origin.trim() == "*");
        let patterns = allowed.iter().filter_map(|it| Origin::read(it)).collect();
        Self { any, patterns }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any && self.patterns.is_empty()
    }

    pub(super) fn allow(&self, origin: &str) -> bool {
        self.any
            || Origin::read(origin)
                .is_some_and(|origin| self.patterns.iter().any(|it| it.fits(&origin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(allowed: &[&str]) -> Origins {
        Origins::new(
            &allowed
                .iter()
                .map(|it| (*it).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn origins_are_compared_whole() {
        let some = origins(&[
            "https://chat.example.com",
            "http://localhost:*",
            "http://a.example:80",
            "https://*.example.org",
            "http://[::1]:*",
            "chrome-extension://*",
        ]);
        for allowed in [
            "https://chat.example.com",
            "https://CHAT.example.com:443",
            "http://localhost:3000",
            "http://localhost",
            "http://a.example",
            "https://a.example.org",
            "https://b.a.example.org:443",
            "http://[::1]:3000",
            "chrome-extension://abcdef",
        ] {
            assert!(some.allow(allowed), "{allowed}");
        }
        for foreign in [
            "http://chat.example.com",
            "https://chat.example.com.evil.example",
            "https://chat.example.com:8443",
            "null",
            "http://localhost.evil.example",
            "http://localhost:80.evil.example",
            "https://example.org",
            "http://a.example.org",
            "https://a.example.org:8443",
            "https://evilexample.org",
            "chrome-extension://",
            "",
        ] {
            assert!(!some.allow(foreign), "{foreign}");
        }
        assert!(origins(&["*"]).allow("null") && origins(&["null"]).allow("null"));
        assert!(origins(&[]).is_empty() && !origins(&[]).allow("http://localhost"));
    }
    #[test]
    fn what_fits_no_page_is_refused() {
        for allowed in ["https://*.example.com:*", "app://obsidian.md", "null", "*"] {
            assert_eq!(checked(allowed).as_deref(), Ok(allowed));
        }
        for refused in [
            "localhost:3000",
            "*.example.com",
            "https://chat.*.com",
            "https://*example.com",
            "https://chat.example.com/page",
            "http://192.168.*",
        ] {
            assert!(checked(refused).is_err(), "{refused}");
        }
    }
}
