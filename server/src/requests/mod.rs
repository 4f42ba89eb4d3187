//! The requests that are being answered: the session of each, and the list of all.

mod answer;
mod open;
mod running;

pub(crate) use answer::Answer;
pub(crate) use open::{Listing, Opened, RequestInfo, open};
pub(crate) use running::Running;

use running::Listed;
