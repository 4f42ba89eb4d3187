//! Why a session does not advance, in terms of its graph: what each node waits for, down to the
//! root cause.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use crate::timestamp::Timestamp;

/// What a session waits for, to print or to serialize.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Why {
    /// The session has ended, and nothing else is said.
    pub ended: bool,
    /// From a node that has something to do and cannot, to the root of that: each wait is the
    /// reason for the one before it. One chain for each root.
    pub chains: Vec<Vec<Wait>>,
    /// Every node that is not closed, in the order of the plan.
    pub nodes: Vec<Wait>,
    /// The graph inputs that are open, and how far they are known.
    pub open_inputs: Vec<OpenInput>,
}

/// A graph input that more may come on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenInput {
    /// The stream.
    pub stream: String,
    /// The smallest timestamp that can still come.
    pub bound: Timestamp,
}

/// What one node waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// The node.
    pub node: String,
    /// Packets in its queues.
    pub packets: usize,
    /// The timestamp of the first of them.
    pub first: Option<Timestamp>,
    /// How long ago its last call ended, or, while one goes on, began; none before the first. Exact
    /// to the session's last poll.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub since: Option<Duration>,
    /// What it waits for.
    #[serde(flatten)]
    pub reason: Reason,
}

/// What keeps a node from being called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "waits_for", rename_all = "snake_case")]
pub enum Reason {
    /// A stream that is not settled far enough.
    Stream {
        /// The stream.
        stream: String,
        /// The node that makes it; none for a graph input.
        from: Option<String>,
        /// The smallest timestamp that can still come on it.
        bound: Timestamp,
    },
    /// It went past what its consumer waits for, emitted nothing there, and its output has no
    /// timestamp offset.
    Nothing {
        /// Its output.
        stream: String,
        /// The smallest timestamp that can still come on it.
        bound: Timestamp,
        /// How far its own inputs are dealt with.
        dealt: Timestamp,
    },
    /// A side packet, before it can open.
    SidePacket {
        /// The side packet.
        side_packet: String,
        /// The node that makes it.
        from: String,
    },
    /// It is closed and has not set the side packet that another waits for.
    NeverSet {
        /// The side packet.
        side_packet: String,
    },
    /// Another node that has to open first.
    Opening {
        /// The node.
        of: String,
    },
    /// Room in the queue of a consumer.
    Room {
        /// The stream.
        stream: String,
        /// The consumer.
        at: String,
        /// The packets in its queue.
        queued: usize,
    },
    /// The reader of an output of the session.
    Reader {
        /// The stream.
        stream: String,
        /// The packets that it has not read.
        unread: usize,
    },
    /// A call on an executor.
    Executor {
        /// Place of the call, as in "on `cpu`".
        runs: String,
        /// Number of jobs of the same graph that begin before it; `None` if it has begun.
        before: Option<usize>,
    },
    /// A call whose future is pending.
    Future {
        /// Description of the wait, if the node gives one, in words that can follow "waits for".
        what: Option<String>,
    },
    /// Something from outside the graph: an event sender or a hold exists.
    Event {
        /// Description of the event, in words that can follow "waits for".
        what: String,
    },
    /// A source of a lower layer that is not done.
    Layer {
        /// The layer of the one that waits.
        layer: i32,
        /// The source.
        source: String,
    },
    /// Itself, by way of other nodes: a loop.
    Itself {
        /// The nodes, each of which waits for the next, and the last for the first.
        nodes: Vec<String>,
        /// The back edge that closes the loop, if packets of other inputs wait with it.
        back_edge: Option<String>,
    },
    /// Itself: it has paused a stream with packets, and goes on with it when it is called for
    /// another.
    Paused {
        /// The stream.
        stream: String,
    },
    /// Its turn, which comes with the session's next poll.
    Turn,
    /// The end of the session: it has nothing more to do.
    End,
}

impl Why {
    pub(crate) fn ended() -> Self {
        Self {
            ended: true,
            ..Self::default()
        }
    }

    /// Returns true if the session cannot go on by itself: all that it waits for is its client, or
    /// will not come. No call goes on, none is due, and nothing that could send an event holds a
    /// node.
    pub fn is_stuck(&self) -> bool {
        let mut waits = self.chains.iter().flatten().chain(&self.nodes);
        !self.ended && !self.nodes.is_empty() && !waits.any(|wait| wait.reason.is_at_work())
    }

    /// What everything else waits for in the end; none if nothing that is on its way is held up.
    pub fn roots(&self) -> impl Iterator<Item = &Wait> {
        self.chains.iter().filter_map(|chain| chain.last())
    }
}

#[expect(clippy::ref_option, reason = "the signature that the serializer calls")]
fn seconds<S: Serializer>(since: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    since.map(|since| since.as_secs_f64()).serialize(serializer)
}

impl fmt::Display for Why {
    /// A line for each wait, those that are the reason for the one above it indented; then what
    /// else is open.
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

/// How far a stream is known, in words.
fn known(bound: Timestamp) -> String {
    match bound {
        Timestamp::PRE_STREAM => "on which nothing came yet".to_owned(),
        bound => format!("known before {bound}"),
    }
}

impl fmt::Display for Wait {
    /// One sentence without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.node, self.reason)?;
        match (&self.reason, self.packets, self.first) {
            (Reason::Stream { .. }, 1, Some(first)) => {
                write!(f, "; 1 packet waits with it, at {first}")
            }
            (Reason::Stream { .. }, packets, Some(first)) => {
                write!(f, "; {packets} packets wait with it, the first at {first}")
            }
            _ => Ok(()),
        }
    }
}

impl Reason {
    /// Returns true if something is at work that ends the wait.
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
                from: Some(from),
                bound,
            } => write!(
                f,
                "waits for stream `{stream}` from `{from}`, {}",
                known(*bound)
            ),
            Self::Stream {
                stream,
                from: None,
                bound,
            } => write!(
                f,
                "waits for graph input `{stream}`, {}; it is not closed",
                known(*bound)
            ),
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
                match back_edge {
                    Some(stream) => write!(
                        f,
                        "; give back edge `{stream}` a first packet, or a sync set of its own"
                    ),
                    None => Ok(()),
                }
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
