//! The reason why a session does not advance, in terms of its graph: the wait of each node, down to
//! the root cause.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use crate::timestamp::Timestamp;

/// The waits of a session, for text and JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Why {
    /// Set if the session has ended; all other fields are then empty.
    pub ended: bool,
    /// Chains from a node that cannot continue to the root cause. Each wait is caused by the next
    /// one. There is one chain for each root.
    pub chains: Vec<Vec<Wait>>,
    /// Waits of all nodes that are not closed, in the order of the plan.
    pub nodes: Vec<Wait>,
    /// Graph inputs that are still open.
    pub open_inputs: Vec<OpenInput>,
}

/// A graph input that can still receive packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenInput {
    /// Name of the input stream.
    pub stream: String,
    /// Smallest timestamp that can still arrive.
    pub bound: Timestamp,
}

/// The wait of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// Name of the waiting node.
    pub node: String,
    /// Number of packets in its queues.
    pub packets: usize,
    /// Timestamp of the first of these packets.
    pub first: Option<Timestamp>,
    /// Time since its last call ended or, during a call, began; `None` before the first call. Exact
    /// to the session's last poll.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub since: Option<Duration>,
    /// Reason why the node is not called.
    #[serde(flatten)]
    pub reason: Reason,
}

/// The reason why a node is not called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "waits_for", rename_all = "snake_case")]
pub enum Reason {
    /// It waits for a stream that is not settled far enough.
    Stream {
        /// Name of the stream that is not settled.
        stream: String,
        /// Node that writes the stream; `None` for a graph input.
        from: Option<String>,
        /// Smallest timestamp that can still arrive.
        bound: Timestamp,
    },
    /// It has passed the timestamp that its consumer waits for and emitted nothing there, and its
    /// output has no timestamp offset.
    Nothing {
        /// Output stream of the node.
        stream: String,
        /// Smallest timestamp that can still arrive.
        bound: Timestamp,
        /// Timestamp before which all of its own inputs are processed.
        dealt: Timestamp,
    },
    /// It cannot open before a side packet is set.
    SidePacket {
        /// Name of the side packet.
        side_packet: String,
        /// Node that sets the side packet.
        from: String,
    },
    /// It is closed and has not set a side packet that another node waits for.
    NeverSet {
        /// Name of the side packet.
        side_packet: String,
    },
    /// It cannot open before another node.
    Opening {
        /// Name of the other node.
        of: String,
    },
    /// It waits for room in the queue of a consumer.
    Room {
        /// Name of the stream with the full queue.
        stream: String,
        /// Node with the full queue.
        at: String,
        /// Number of packets in the queue.
        queued: usize,
    },
    /// It waits for the reader of an output of the session.
    Reader {
        /// Name of the output stream.
        stream: String,
        /// Number of packets that the reader has not taken.
        unread: usize,
    },
    /// It is in a call on an executor.
    Executor {
        /// Place of the call, as in "on `cpu`".
        runs: String,
        /// Number of jobs of the same graph that begin before it; `None` if it has begun.
        before: Option<usize>,
    },
    /// It is in a call whose future is pending.
    Future {
        /// Description of the wait, if the node gives one, in words that can follow "waits for".
        what: Option<String>,
    },
    /// It waits for an outside event: an event sender or a hold exists.
    Event {
        /// Description of the event, in words that can follow "waits for".
        what: String,
    },
    /// It is a source, and a source of a lower layer is still open.
    Layer {
        /// Layer of the waiting source.
        layer: i32,
        /// Name of the source in the lower layer.
        source: String,
    },
    /// It waits for itself through other nodes: a loop.
    Itself {
        /// Nodes of the loop. Each waits for the next, and the last one for the first.
        nodes: Vec<String>,
        /// Back edge that closes the loop, if packets of other inputs wait with it.
        back_edge: Option<String>,
    },
    /// It has paused a stream with packets. It takes them only after a call for another reason.
    Paused {
        /// Name of the paused stream.
        stream: String,
    },
    /// It waits for its turn in the session's next poll.
    Turn,
    /// It has nothing more to do and waits for the end of the session.
    End,
}

impl Why {
    pub(crate) fn ended() -> Self {
        Self {
            ended: true,
            ..Self::default()
        }
    }

    /// Returns `true` if the session cannot continue by itself: it waits only for its client, or
    /// for something that will not come. No call is in progress, no node is ready, and no node is
    /// held by a possible sender of events.
    pub fn is_stuck(&self) -> bool {
        let mut waits = self.chains.iter().flatten().chain(&self.nodes);
        !self.ended && !self.nodes.is_empty() && !waits.any(|wait| wait.reason.is_at_work())
    }

    /// Iterates over the root causes of all waits. Empty if no packet is held up.
    pub fn roots(&self) -> impl Iterator<Item = &Wait> {
        self.chains.iter().filter_map(|chain| chain.last())
    }
}

#[expect(clippy::ref_option, reason = "the signature that the serializer calls")]
fn seconds<S: Serializer>(since: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    since.map(|since| since.as_secs_f64()).serialize(serializer)
}

impl fmt::Display for Why {
    /// Writes a line for each wait, with its cause indented below it, then the open graph inputs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ended {
            return f.write_str("the session has ended");
        }
        for chain in &self.chains {
            for (depth, wait) in chain.iter().enumerate() {
                write!(f, "{:1$}{wait}", "", 2 * depth)?;
                if let Some(since) = wait.since {
                    write!(f, " ({:.1} s)", since.as_secs_f64())?;
                }
                writeln!(f)?;
            }
        }
        if self.chains.is_empty() {
            writeln!(f, "nothing is on its way")?;
        }
        if !self.open_inputs.is_empty() {
            let inputs: Vec<String> = self.open_inputs.iter().map(ToString::to_string).collect();
            writeln!(f, "open graph inputs: {}", inputs.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for OpenInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.stream)?;
        match self.bound {
            Timestamp::PRE_STREAM => Ok(()),
            bound => write!(f, " from {bound} on"),
        }
    }
}

/// Describes how far a stream is known.
fn known(bound: Timestamp) -> String {
    match bound {
        Timestamp::PRE_STREAM => "on which nothing came yet".to_owned(),
        bound => format!("known before {bound}"),
    }
}

impl fmt::Display for Wait {
    /// Writes one sentence without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.node, self.reason)?;
        match (&self.reason, self.packets, self.first) {
            (Reason::Stream { .. }, 1, Some(at)) => write!(f, "; 1 packet waits with it, at {at}"),
            (Reason::Stream { .. }, packets, Some(first)) => {
                write!(f, "; {packets} packets wait with it, the first at {first}")
            }
            _ => Ok(()),
        }
    }
}

impl Reason {
    /// Returns `true` if work in progress will end the wait.
    fn is_at_work(&self) -> bool {
        matches!(
            self,
            Self::Executor { .. } | Self::Future { .. } | Self::Event { .. } | Self::Turn
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream {
                stream,
                from,
                bound,
            } => {
                let known = known(*bound);
                match from {
                    Some(from) => write!(f, "waits for stream `{stream}` from `{from}`, {known}"),
                    None => write!(
                        f,
                        "waits for graph input `{stream}`, {known}; it is not closed"
                    ),
                }
            }
            Self::Nothing {
                stream,
                bound,
                dealt,
            } => write!(
                f,
                "has dealt with everything before {dealt}, but stream `{stream}` is {}: without a timestamp offset it moves only \
                 with what is emitted",
                match *bound {
                    Timestamp::PRE_STREAM => "still empty".to_owned(),
                    bound => format!("known before {bound} only"),
                }
            ),
            Self::SidePacket { side_packet, from } => {
                write!(f, "waits for side packet `{side_packet}` from `{from}`")
            }
            Self::NeverSet { side_packet } => {
                write!(f, "is closed and has not set side packet `{side_packet}`")
            }
            Self::Opening { of } => write!(f, "waits for `{of}` to open"),
            Self::Room { stream, at, queued } => write!(
                f,
                "waits for room in the queue of stream `{stream}` at `{at}`, full with {queued} packets"
            ),
            Self::Reader { stream, unread } => write!(
                f,
                "waits for the reader of output `{stream}`, which reads too slowly: {unread} packets wait for it"
            ),
            Self::Executor { runs, before } => match before {
                None => write!(f, "is in a call {runs}"),
                Some(0) => write!(f, "waits for a free thread {runs}"),
                Some(before) => write!(
                    f,
                    "waits for a free thread {runs}, behind {before} of its graph's calls"
                ),
            },
            Self::Future { what: None } => f.write_str("is in an async call that is pending"),
            Self::Future { what: Some(what) } | Self::Event { what } => {
                write!(f, "waits for {what}")
            }
            Self::Layer { layer, source } => write!(
                f,
                "is a source of layer {layer} and waits for `{source}` of a lower layer to be done"
            ),
            Self::Itself { nodes, back_edge } => {
                let mut nodes: Vec<String> = nodes.iter().map(|node| format!("`{node}`")).collect();
                nodes.extend(nodes.first().cloned());
                write!(f, "waits for itself: {}", nodes.join(" > "))?;
                back_edge.as_ref().map_or(Ok(()), |stream| {
                    write!(
                        f,
                        "; give back edge `{stream}` a first packet, or a sync set of its own"
                    )
                })
            }
            Self::Paused { stream } => write!(
                f,
                "has paused stream `{stream}`, and takes its packets once it is called for something else"
            ),
            Self::Turn => f.write_str("waits for its turn"),
            Self::End => f.write_str("waits for the end of the session"),
        }
    }
}
