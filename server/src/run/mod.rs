//! One run of a graph for a request: who asks, the session, and its answer; and the list of all
//! requests that are being answered.

mod answer;
mod context;
mod driver;
mod open;
mod running;

pub(crate) use answer::Answer;
pub(crate) use context::RequestContext;
pub(crate) use driver::{Driven, Driver, Given, Outputs};
pub(crate) use open::{Listing, Opened, RequestInfo, open};
pub(crate) use running::Running;

use running::Listed;
