//! Watchers of the packets of a session.
//!
//! Unlike an observer or the reader of an output, a watcher does not affect the session: it cannot
//! fail it, does not consume packets, and can be added and removed while the session runs.

use crate::{
    error::{Error, Result},
    packet::Packet,
    plan::Plan,
};

use super::streams::StreamState;

/// A callback with each packet of some streams and the stream's position among them. It returns
/// `false` to get no more packets. It must not block, because the session waits for it.
pub(super) type Sink = Box<dyn FnMut(usize, &Packet) -> bool + Send>;

/// A watcher of some streams.
pub(super) struct PacketObserver {
    streams: Vec<u32>,
    sink: Sink,
}

impl PacketObserver {
    pub(super) fn new(plan: &Plan, streams: &[&str], sink: Sink) -> Result<Self> {
        let streams = streams.iter().map(|stream| plan.find_stream(stream));
        Ok(Self {
            streams: streams.collect::<Result<_, Error>>()?,
            sink,
        })
    }
}

/// All watchers of a session.
#[derive(Default)]
pub(super) struct Watchers(Vec<PacketObserver>);

impl Watchers {
    pub(super) fn add(&mut self, watcher: PacketObserver, streams: &mut [StreamState]) {
        for &stream in &watcher.streams {
            streams[stream as usize].watched = true;
        }
        self.0.push(watcher);
    }

    /// Gives a packet to the watchers of its stream. Returns `false` if no watcher is left.
    pub(super) fn packet(&mut self, stream: u32, packet: &Packet) -> bool {
        let mut is_watched = false;
        self.0.retain_mut(|watcher| {
            let mut positions = watcher.streams.iter();
            let Some(position) = positions.position(|&other| other == stream) else {
                return true;
            };
            let stays = (watcher.sink)(position, packet);
            is_watched |= stays;
            stays
        });
        is_watched
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
