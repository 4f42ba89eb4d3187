//! The sites whose pages may send requests and read answers.

/// Allowed origins.
#[derive(Debug, Default)]
pub(super) struct Origins {
    any: bool,
    /// In lower case, without the port that the scheme has anyway.
    exact: Vec<String>,
    /// Those whose port does not matter, up to it.
    of_any_port: Vec<String>,
}

/// The port that a scheme has where none is named.
pub(super) fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

fn normal(origin: &str) -> String {
    let origin = origin.trim().trim_end_matches('/').to_ascii_lowercase();
    for (scheme, port) in [("http://", ":80"), ("https://", ":443")] {
        if origin.starts_with(scheme)
            && let Some(without) = origin.strip_suffix(port)
        {
            return without.to_owned();
        }
    }
    origin
}

impl Origins {
    pub(super) fn new(allowed: &[String]) -> Self {
        let mut origins = Self::default();
        for origin in allowed {
            let origin = normal(origin);
            if origin == "*" {
                origins.any = true;
            } else if let Some(host) = origin.strip_suffix(":*") {
                origins.of_any_port.push(host.to_owned());
            } else if !origin.is_empty() {
                origins.exact.push(origin);
            }
        }
        origins
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any && self.exact.is_empty() && self.of_any_port.is_empty()
    }

    pub(super) fn allow(&self, origin: &str) -> bool {
        if self.any {
            return true;
        }
        let origin = normal(origin);
        let is_port = |port: &str| {
            port.is_empty()
                || port
                    .strip_prefix(':')
                    .is_some_and(|port| port.parse::<u16>().is_ok())
        };
        self.exact.contains(&origin)
            || self
                .of_any_port
                .iter()
                .any(|host| origin.strip_prefix(host.as_str()).is_some_and(is_port))
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
        ]);
        for allowed in [
            "https://chat.example.com",
            "https://CHAT.example.com:443",
            "http://localhost:3000",
            "http://localhost",
            "http://a.example",
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
            "",
        ] {
            assert!(!some.allow(foreign), "{foreign}");
        }
        assert!(origins(&["*"]).allow("null"));
        assert!(origins(&[]).is_empty() && !origins(&[]).allow("http://localhost"));
    }
}
