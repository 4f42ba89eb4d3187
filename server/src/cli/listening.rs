//! Flags for addresses, allowed hosts and origins, connection limits and timeouts.

use std::{
    collections::HashMap,
    io::ErrorKind,
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, value_parser};

use super::heading;
use crate::{
    app::Server,
    app::state::Options,
    listen::{self, Limits},
    origin_checks::checked_origin,
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Listening {
    /// Addresses or host names of the REST API, separated by commas.
    ///
    /// Use 0.0.0.0 to accept connections from other machines; without keys (`--api_key_file`),
    /// anyone who can connect can use it.
    #[arg(
        help_heading = heading::NETWORK,
        long,
        visible_alias = "host",
        alias = "http_address",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "127.0.0.1"
    )]
    rest_bind_address: Vec<String>,
    /// Path of a Unix socket that also serves the REST API, without TLS.
    #[arg(help_heading = heading::NETWORK, long, value_name = "PATH")]
    unix_socket: Option<PathBuf>,
    /// Prefix that request paths may have, such as `/llm`.
    #[arg(help_heading = heading::NETWORK, long, value_name = "PATH", value_parser = prefix)]
    api_prefix: Option<String>,
    /// Addresses or host names of the gRPC API (`--port`), separated by commas.
    ///
    /// As for `--rest_bind_address`, 0.0.0.0 accepts connections from other machines.
    #[arg(
        help_heading = heading::NETWORK,
        long,
        alias = "grpc_address",
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "127.0.0.1"
    )]
    grpc_bind_address: Vec<String>,
    /// Separate port for administrative gRPC requests, such as TorchServe's management API.
    ///
    /// Its addresses are those of `--grpc_bind_address`. `--port` then refuses these requests.
    #[arg(help_heading = heading::NETWORK, long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    grpc_management_port: Option<u16>,
    /// Separate port for health, metrics, status and configuration.
    ///
    /// It stays reachable when the other ports have reached `--max_connections`. With it, metrics,
    /// status and configuration are served only there.
    #[arg(help_heading = heading::NETWORK, long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    management_port: Option<u16>,
    /// Addresses or host names of the management port, separated by commas.
    #[arg(
        help_heading = heading::NETWORK,
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "127.0.0.1",
        requires = "management_port"
    )]
    management_bind_address: Vec<String>,
    /// Additional address and port that serve only `/metrics`, such as `0.0.0.0:8002`.
    #[arg(help_heading = heading::NETWORK, long, value_name = "ADDRESS")]
    metrics_address: Option<String>,
    /// Host names that clients may use, separated by commas: `models.example.com`, `*.example.com`,
    /// or `*` for any.
    ///
    /// `localhost` and the server's addresses are always allowed. If other machines can connect, so
    /// are the machine's own name and names that are private to a network, such as `*.local` and
    /// `*.internal`.
    #[arg(help_heading = heading::SECURITY, long, value_name = "NAME", value_delimiter = ',')]
    allowed_hosts: Vec<String>,
    /// Sites whose pages may send requests and read answers, separated by commas:
    /// `https://chat.example.com`, `https://*.example.com`, `http://localhost:*`,
    /// `chrome-extension://*`, or `*` for any.
    #[arg(help_heading = heading::SECURITY, long, value_name = "ORIGIN", value_delimiter = ',', value_parser = checked_origin)]
    allowed_origins: Vec<String>,
    /// Maximum number of client connections; fewer if the limit of open files (`ulimit -n`) is
    /// lower.
    #[arg(help_heading = heading::LIMITS, long, value_name = "COUNT", default_value_t = 1_024, value_parser = value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Seconds that a client may take to send the head of a request.
    #[arg(help_heading = heading::LIMITS, long, value_name = "SECONDS", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    header_timeout_seconds: u32,
    /// Seconds that a client may take to send a request body, plus one for each 64 KiB received.
    #[arg(help_heading = heading::LIMITS, long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u32).range(1..))]
    body_timeout_seconds: u32,
    /// Seconds that a client may leave its answer unread, plus one for each 16 KiB read.
    #[arg(help_heading = heading::LIMITS, long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
    write_timeout_seconds: u32,
    /// Seconds that a connection may be idle.
    ///
    /// Behind a proxy, set it above the proxy's idle timeout. Otherwise the proxy sends requests
    /// into connections that are being closed.
    #[arg(help_heading = heading::LIMITS, long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
    idle_timeout_seconds: u32,
}

impl Listening {
    /// Sets the options for listening.
    pub(super) fn apply(
        &self,
        port: u16,
        grpc_port: Option<u16>,
        options: &mut Options,
    ) -> Result<(), String> {
        options.unix_socket.clone_from(&self.unix_socket);
        options.api_prefix.clone_from(&self.api_prefix);
        options.addresses = resolve(&self.rest_bind_address, port, "--rest_bind_address")?;
        if let Some(port) = grpc_port.filter(|port| *port != 0) {
            options.grpc = resolve(&self.grpc_bind_address, port, "--grpc_bind_address")?;
        }
        if let Some(port) = self.grpc_management_port {
            let hosts = &self.grpc_bind_address;
            options.grpc_management = resolve(hosts, port, "--grpc_bind_address")?;
        }
        if let Some(port) = self.management_port {
            let hosts = &self.management_bind_address;
            options.management = resolve(hosts, port, "--management_bind_address")?;
        }
        if let Some(address) = &self.metrics_address {
            let found = address
                .to_socket_addrs()
                .map_err(|error| match error.kind() {
                    ErrorKind::InvalidInput => format!(
                        "`--metrics_address {address}`: expected an address and a port, such as \
                     127.0.0.1:8002"
                    ),
                    _ => format!("`--metrics_address {address}`: {error}"),
                });
            options.metrics = found?.collect();
        }
        let ports = [
            ("--rest_port", &options.addresses),
            ("--port", &options.grpc),
            ("--grpc_management_port", &options.grpc_management),
            ("--management_port", &options.management),
            ("--metrics_address", &options.metrics),
        ];
        let mut taken = HashMap::new();
        for (flag, addresses) in ports {
            for address in addresses.iter().filter(|it| it.port() != 0) {
                if let Some(other) = taken.insert(address, flag).filter(|other| *other != flag) {
                    return Err(format!(
                        "`{other}` and `{flag}` both listen at {address}: each needs its own port"
                    ));
                }
            }
        }
        let bound = self.rest_bind_address.iter();
        let bound = bound.chain(&self.management_bind_address);
        let bound = bound.chain(&self.grpc_bind_address);
        options.allowed_hosts = bound.chain(&self.allowed_hosts).cloned().collect();
        options.allowed_origins.clone_from(&self.allowed_origins);
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let wanted = self.max_connections as usize;
        let connections = listen::affordable(wanted);
        if connections < wanted {
            tracing::warn!(
                "at most {connections} connections at a time, because of the limit of open files (ulimit -n)"
            );
        }
        options.limits = Limits {
            connections,
            header: seconds(self.header_timeout_seconds),
            idle: seconds(self.idle_timeout_seconds),
            body: seconds(self.body_timeout_seconds),
            write: seconds(self.write_timeout_seconds),
        };
        Ok(())
    }
}

/// Returns the addresses of a server and their purposes.
fn listeners(server: &Server) -> [(&[SocketAddr], &'static str); 5] {
    let management = server.management_addresses();
    [
        (server.addresses(), "REST"),
        (server.grpc_addresses(), "gRPC"),
        (server.grpc_management_addresses(), "gRPC of operators"),
        (management, "health, metrics, status and config"),
        (server.metrics_addresses(), "metrics"),
    ]
}

/// Describes the addresses of a server and their purposes.
pub(super) fn told(server: &Server, scheme: &str) -> String {
    let listeners = listeners(server).into_iter();
    let listeners = listeners.filter(|(at, _)| !at.is_empty());
    let told = listeners.map(|(addresses, what)| {
        let urls = addresses.iter().map(|it| format!("{scheme}://{it}"));
        format!("{} for {what}", urls.collect::<Vec<_>>().join(" and "))
    });
    let socket = server.unix_socket();
    let socket = socket.map(|path| format!("`{}` for REST", path.display()));
    told.chain(socket).collect::<Vec<_>>().join(", ")
}

/// Warns about each address that other machines can reach, for a server without keys.
pub(super) fn warn_of_strangers(server: &Server) {
    let addresses = listeners(server).into_iter().flat_map(|(at, _)| at);
    for address in addresses.filter(|it| !it.ip().is_loopback()) {
        tracing::warn!(
            "EVERYBODY WHO CAN CONNECT TO http://{address} CAN USE THIS SERVER: it has no keys. Restrict access with keys \
             (--api_key_file) or a firewall, or listen at 127.0.0.1 (--rest_bind_address)"
        );
    }
}

/// Parses a prefix of paths: one or more segments. Slashes at the end are dropped.
fn prefix(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._~".contains(it);
    let mut segments = text.split('/');
    let is_path = segments.next() == Some("");
    if is_path && text.len() > 1 && segments.all(|it| !it.is_empty() && it.chars().all(is_plain)) {
        Ok(text.to_owned())
    } else {
        Err("expected a path such as /llm, of letters, digits and `-._~`".to_owned())
    }
}

/// Resolves host names to socket addresses, without duplicates.
fn resolve(hosts: &[String], port: u16, flag: &str) -> Result<Vec<SocketAddr>, String> {
    let mut addresses = Vec::new();
    for host in hosts.iter().map(|host| host.trim()) {
        let found = (host, port).to_socket_addrs();
        addresses
            .extend(found.map_err(|error| format!("cannot resolve `{host}` ({flag}): {error}"))?);
    }
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}
