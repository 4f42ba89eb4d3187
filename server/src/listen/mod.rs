//! Listeners and connections, with limits on clients and their time, independent of the content of
//! requests.
//!
//! A connection is one task ([`serve`]) with a [`socket`] that records the client's activity, over
//! TCP or [`tls`]. [`connection`] has its state and checks its limits. [`connections`] has all of
//! them.

mod accept;
mod body;
mod connection;
mod connections;
mod limits;
mod serve;
mod socket;
mod tls;
mod unix;

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use std::sync::Arc;

pub(crate) use accept::{accept, listen};
pub(crate) use body::ON_ITS_WAY;
pub(crate) use connection::Exchange;
pub(crate) use connections::Connections;
pub use limits::Limits;
pub(crate) use limits::{affordable, time_allowed};
pub(crate) use tls::{Tls, watch_certificates};
pub use tls::{TlsError, TlsFiles};
pub(crate) use unix::UnixSocket;

use crate::errors::{Cause, Failure};

/// Replaces the answer to a request whose body did not arrive in time by that error.
pub(crate) async fn late_bodies(request: Request, next: Next) -> Response {
    let exchange = request.extensions().get::<Arc<Exchange>>().cloned();
    let response = next.run(request).await;
    if exchange.is_some_and(|exchange| exchange.body_was_late()) {
        let why = "the request's body did not arrive in time";
        return Failure::new(Cause::LateRequest, why).into_response();
    }
    response
}
