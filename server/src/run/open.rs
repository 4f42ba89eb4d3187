//! How the session of a request is opened, and where it is listed as long as it is open.

use std::{sync::Arc, time::Instant};

use graphmill_calculators::payload::Account;
use graphmill_engine::{Handle, Plan, RunCx, Session, SidePackets};

use super::{Listed, Running};
use crate::{
    errors::Failure,
    observe::request_id::Id,
    owner::Owner,
    servable::{InUse, Ready},
    sessions::{About, Entered, RecordingOptions, Sessions},
};

/// A request, as the session's context has it.
pub(crate) struct RequestInfo {
    pub(crate) id: Id,
    /// When the session ends at the latest.
    pub(crate) deadline: Option<Instant>,
    pub(crate) owner: Option<Owner>,
    pub(crate) account: Account,
    /// What nodes tell others that they ask.
    pub(crate) traceparent: Option<Arc<str>>,
    /// What is to be recorded of it.
    pub(crate) records: Option<RecordingOptions>,
}

/// A session that has not begun.
pub(crate) struct Opened {
    pub(crate) plan: Arc<Plan>,
    pub(crate) session: Session,
    pub(crate) handle: Handle,
    pub(crate) listing: Listing,
}

/// Has a request and its session listed, and their graph kept in memory, until it is dropped.
pub(crate) struct Listing {
    _listed: Listed,
    _entered: Entered,
    _in_use: InUse,
}

/// Opens a session on a graph. `label` says what it is, for people.
pub(crate) fn open(
    (running, sessions): (&Arc<Running>, &Arc<Sessions>),
    ready: Ready,
    sides: &SidePackets,
    label: &str,
    request: RequestInfo,
) -> Result<Opened, Failure> {
    let mut run = RunCx::new(request.id.text.clone());
    run.deadline = request.deadline;
    run.tenant = request.owner.as_ref().map(Owner::name);
    run.extension = Some(Arc::new(request.account));
    run.trace.traceparent = request.traceparent;
    let key = request.owner.as_ref().and_then(Owner::key);
    let listed = running.list(&request.id, key.cloned(), run.cancel.clone());
    let (mut session, handle) = Session::new(&ready.plan, run, sides.clone())?;
    let about = About {
        servable: &ready.servable,
        request: &request.id.text,
        key,
        label,
        sides,
        records: request.records,
    };
    let entered = sessions.enter(&mut session, &handle, &about);
    Ok(Opened {
        plan: ready.plan,
        session,
        handle,
        listing: Listing {
            _listed: listed,
            _entered: entered,
            _in_use: ready.in_use,
        },
    })
}
