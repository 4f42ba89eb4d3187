//! What a calculator sees of its session: [`OpenCx`] once, [`Cx`] in each call.

use std::{any::Any, sync::Arc};

use crate::{
    emits::Emits,
    error::Error,
    events::{EventSender, Hold},
    input::InputSet,
    packet::{Packet, Payload},
    port::{Events, In, Out, OutSide, PortType, Res, Side},
    resource::{AnyResource, Resource},
    run::RunCx,
    timestamp::Timestamp,
};

/// Which node of which session a call belongs to.
#[derive(Clone)]
pub(crate) struct Site<'a> {
    pub(crate) node: u16,
    pub(crate) name: &'a Arc<str>,
    pub(crate) session: &'a dyn Host,
    /// The error with which the session has ended, while its nodes are closed for that.
    pub(crate) ended: Option<&'a Error>,
}

/// A session, as the contexts of its nodes see it.
pub(crate) trait Host {
    /// The request it works for.
    fn run(&self) -> &Arc<RunCx>;

    /// Keeps a node open until the answer is dropped.
    fn hold(&self, node: u16) -> Hold;
}

/// The value of an input side packet of a node.
#[derive(Clone, Default)]
pub(crate) enum SideValue {
    #[default]
    Absent,
    Packet(Packet),
    Resource(AnyResource),
}

/// What a calculator sees while it is made for a session.
pub struct OpenCx<'a> {
    pub(crate) site: Site<'a>,
    /// By position among the node's input side packets.
    pub(crate) sides: &'a [SideValue],
    pub(crate) out: &'a mut Emits,
}

impl OpenCx<'_> {
    /// The name of the node.
    pub fn node_name(&self) -> &Arc<str> {
        self.site.name
    }

    /// The request this session works for.
    pub fn run(&self) -> &Arc<RunCx> {
        self.site.session.run()
    }

    /// The value of an input side packet; none if it is optional and not given.
    pub fn side<T: Payload>(&self, port: Side<T>) -> Option<&T> {
        self.side_packet(port)?.get()
    }

    /// An input side packet of any type.
    pub fn side_packet<T: ?Sized + PortType>(&self, port: Side<T>) -> Option<&Packet> {
        match &self.sides[port.index()?] {
            SideValue::Packet(packet) => Some(packet),
            SideValue::Absent | SideValue::Resource(_) => None,
        }
    }

    /// A required resource.
    pub fn resource<R: Resource>(&self, port: Res<R>) -> Arc<R> {
        self.optional_resource(port)
            .expect("a plan holds every required resource of its nodes")
    }

    /// A resource that the graph may leave unconnected.
    pub fn optional_resource<R: Resource>(&self, port: Res<R>) -> Option<Arc<R>> {
        match &self.sides[port.index()?] {
            SideValue::Resource(resource) => Arc::clone(resource).downcast().ok(),
            SideValue::Absent | SideValue::Packet(_) => None,
        }
    }

    /// The sending end of an event port. While one exists, the node stays open.
    pub fn sender<T: Any + Send>(&mut self, port: Events<T>) -> EventSender<T> {
        EventSender::new(self.hold(), port)
    }

    /// Keeps the node open, although its inputs may be closed, until it is dropped.
    pub fn hold(&mut self) -> Hold {
        self.out.holds += 1;
        self.site.session.hold(self.site.node)
    }

    /// Emits a value before the first input: a header, or the first turn of a loop.
    pub fn emit_at<T: Payload>(&mut self, port: Out<T>, time: impl Into<Timestamp>, value: T) {
        self.out.emit_at(port, time, value);
    }

    /// Everything else that can be put out.
    pub fn out(&mut self) -> &mut Emits {
        self.out
    }

    /// Sets an output side packet.
    pub fn output_side<T: Payload>(&mut self, port: OutSide<T>, value: T) {
        self.out.side(port, value);
    }
}

/// What a calculator sees in one call.
pub struct Cx<'a> {
    pub(crate) site: Site<'a>,
    pub(crate) set: &'a mut InputSet,
    pub(crate) out: &'a mut Emits,
}

impl Cx<'_> {
    /// The timestamp of the call: that of the input set; in a source 0; for an event the first free
    /// timestamp of the node's outputs; [`Timestamp::DONE`] in `close`.
    pub fn time(&self) -> Timestamp {
        self.set.time()
    }

    /// The name of the node.
    pub fn node_name(&self) -> &Arc<str> {
        self.site.name
    }

    /// The request this session works for.
    pub fn run(&self) -> &Arc<RunCx> {
        self.site.session.run()
    }

    /// The session's error, if it failed or was cancelled. Set only in the `close` that follows;
    /// what the node emits there is discarded.
    pub fn status(&self) -> Result<(), &Error> {
        self.site.ended.map_or(Ok(()), Err)
    }

    /// The value on an input, if there is one in this call.
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        self.set.get(port)
    }

    /// Takes the value of an input: moved if this node is the last to hold it, else cloned.
    pub fn take<T: Payload + Clone>(&mut self, port: In<T>) -> Option<T> {
        self.set.take(port)
    }

    /// The packet on an input, if there is one in this call.
    pub fn packet<T: ?Sized + PortType>(&self, port: In<T>) -> Option<&Packet> {
        self.set.packet(port)
    }

    /// Takes the packet of an input.
    pub fn take_packet<T: ?Sized + PortType>(&mut self, port: In<T>) -> Option<Packet> {
        self.set.take_packet(port)
    }

    /// How far an input is known: its packet's timestamp, or the last timestamp at which it is
    /// certain to have none.
    pub fn settled<T: ?Sized + PortType>(&self, port: In<T>) -> Timestamp {
        self.set.settled(port)
    }

    /// Takes the event this call is for, if it is one of `port`.
    pub fn event<T: Any + Send>(&mut self, port: Events<T>) -> Option<T> {
        self.set.event(port)
    }

    /// Passes the packet of an input on as it is, if there is one.
    pub fn forward<T: ?Sized + PortType>(&mut self, input: In<T>, output: Out<T>) {
        if let Some(packet) = self.set.take_packet(input) {
            self.out.pass(output, packet);
        }
    }

    /// Emits a value at the call's timestamp; for an event and in `close`, at the first free one.
    pub fn emit<T: Payload>(&mut self, port: Out<T>, value: T) {
        self.out.emit(port, value);
    }

    /// Emits a value at a timestamp of its own.
    pub fn emit_at<T: Payload>(&mut self, port: Out<T>, time: impl Into<Timestamp>, value: T) {
        self.out.emit_at(port, time, value);
    }

    /// Says that nothing before `at` will be emitted any more.
    pub fn bound<T: ?Sized + PortType>(&mut self, port: Out<T>, at: Timestamp) {
        self.out.bound(port, at);
    }

    /// Everything else that can be put out.
    pub fn out(&mut self) -> &mut Emits {
        self.out
    }

    /// The sending end of an event port, for a node that waits for the outside only once it has
    /// asked for something.
    pub fn sender<T: Any + Send>(&mut self, port: Events<T>) -> EventSender<T> {
        EventSender::new(self.hold(), port)
    }

    /// Keeps the node open, although its inputs may be closed, until it is dropped.
    pub fn hold(&mut self) -> Hold {
        self.out.holds += 1;
        self.site.session.hold(self.site.node)
    }
}
