//! The end of a session: nodes that are still open are closed in order. What they emit has nowhere to go any more.

use crate::{
    context::Cx,
    error::{Error, Result},
    node::Instance,
    timestamp::Timestamp,
};

use super::{
    calls::{catch, site},
    running::{Frame, Running, Status},
};

impl Running {
    /// Closes what is open. After `error`, with which the session ends, nodes are told of it, and what goes wrong while they
    /// close changes nothing; nodes that are away on a call are not waited for.
    pub(super) fn close_rest(&mut self, frame: Frame<'_>, error: Option<&Error>) -> Result<()> {
        for node in 0..self.nodes.len() {
            if self.nodes[node].status != Status::Open {
                continue;
            }
            self.nodes[node].status = Status::Closed;
            let Some(mut instance) = self.nodes[node].instance.take() else {
                continue;
            };
            let mut emits = std::mem::take(&mut self.emits);
            emits.start(Timestamp::ZERO);
            let state = &mut self.nodes[node];
            state.runs += 1;
            state.set.clear();
            state.set.set_time(Timestamp::DONE);
            let mut site = site(frame, node);
            site.ended = error;
            let (set, out) = (&mut state.set, &mut emits);
            let closed = catch(move || {
                let mut cx = Cx { site, set, out };
                match &mut instance {
                    Instance::Sync(instance) => instance.close(&mut cx),
                    Instance::Async(instance) => instance.close(&mut cx),
                }
            });
            self.emits = emits;
            match (closed, error) {
                (Ok(()), _) => {}
                (Err(failed), None) => return Err((*failed).at_node(&frame.plan.nodes[node].name)),
                (Err(failed), Some(_)) => {
                    let failed = (*failed).at_node(&frame.plan.nodes[node].name);
                    tracing::warn!(request = %frame.shared.run.id, error = %failed, "a node of a failed session could not be closed");
                }
            }
        }
        for stream in &mut self.streams {
            stream.closed = true;
        }
        Ok(())
    }
}
