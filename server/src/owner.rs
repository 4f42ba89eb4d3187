//! Owners of requests, among whom is shared what the server has once.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::http::Extensions;

use crate::keys::Caller;

/// The address of a client, in the extensions of its requests. Of version 6 it is the network, in
/// which a client has addresses without number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(network))
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// A key, or a client where there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Key(Arc<str>),
    Client(Peer),
}

impl Owner {
    /// The owner of the request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        match extensions.get::<Arc<Caller>>() {
            Some(caller) => Some(Self::Key(Arc::clone(caller.name()))),
            None => extensions.get().copied().map(Self::Client),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(name) => write!(f, "the key `{name}`"),
            Self::Client(Peer(address)) => write!(f, "the client {address}"),
        }
    }
}
