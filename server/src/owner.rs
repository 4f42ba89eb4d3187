//! Owners of requests, among which shared resources are divided.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZero,
    sync::Arc,
};

use axum::http::Extensions;
use graphmill_llm::Tenant;

use crate::keys::Caller;

/// Number of connections or queue places that an address may have for each free one. An address
/// that sends all it can leaves a ninth to others. It is not limited further, as it may be a proxy
/// with all clients behind it.
pub(crate) const PLACES_OF_A_CLIENT: u32 = 8;

/// Address of a client, as an extension of its requests. For IPv6 it is the network, in which a
/// client has any number of addresses.
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

/// The owner of a request: a key, or a client if there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Key(Arc<str>),
    Client(Peer),
}

impl Peer {
    /// Returns the identity of a client for fair scheduling, on a server without keys.
    fn tenant(self) -> Tenant {
        let number = match self.0 {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(network) => (network.to_bits() >> 64) as u64,
        };
        Tenant {
            number,
            weight: NonZero::<u32>::MIN,
            places: PLACES_OF_A_CLIENT,
        }
    }
}

/// Returns the tenant of a request for LLM engines.
pub(crate) fn tenant(caller: Option<&Arc<Caller>>, owner: Option<&Owner>) -> Option<Tenant> {
    match (caller, owner) {
        (Some(caller), _) => caller.tenant(),
        (None, Some(Owner::Client(peer))) => Some(peer.tenant()),
        (None, _) => None,
    }
}

impl Owner {
    /// Returns the owner of the request with these extensions.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Option<Self> {
        match extensions.get::<Arc<Caller>>() {
            Some(caller) => Some(Self::Key(Arc::clone(caller.name()))),
            None => extensions.get().copied().map(Self::Client),
        }
    }

    /// Returns the name of the key; `None` for a client.
    pub(crate) fn key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Key(name) => Some(name),
            Self::Client(_) => None,
        }
    }

    /// Returns a name that is unique among owners.
    pub(crate) fn name(&self) -> Arc<str> {
        match self {
            Self::Key(name) => Arc::clone(name),
            Self::Client(Peer(address)) => address.to_string().into(),
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
