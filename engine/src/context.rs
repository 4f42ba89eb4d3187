//! A calculator's access to its session: [`OpenCx`] when it is made, [`Cx`] in each call.

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

/// The node and session of a call.
#[derive(Clone)]
pub(crate) struct Site<'a> {
    pub(crate) node: u16,
    pub(crate) name: &'a Arc<str>,
    pub(crate) session: &'a dyn Host,
    /// Error that ended the session. Set while its nodes are closed for that reason.
    pub(crate) ended: Option<&'a Error>,
}

/// The services of a session that contexts use.
pub(crate) trait Host {
    /// Returns the context of the session's request.
    fn run(&self) -> &Arc<RunCx>;

    /// Keeps a node open until the result is dropped.
    fn hold(&self, node: u16) -> Hold;
}

/// Value of an input side packet of a node.
#[derive(Clone, Default)]
pub(crate) enum SideValue {
    #[default]
    Absent,
    Packet(Packet),
    Resource(AnyResource),
}

/// The context in which a calculator is made for a session.
pub struct OpenCx<'a> {
    pub(crate) site: Site<'a>,
    /// Values by position of the node's input side packets.
    pub(crate) sides: &'a [SideValue],
    pub(crate) out: &'a mut Emits,
}

impl OpenCx<'_> {
    /// Returns the name of the node, for messages.
    pub fn node_name(&self) -> &Arc<str> {
        self.site.name
    }

    /// Returns the context of the session's request.
    pub fn run(&self) -> &Arc<RunCx> {
        self.site.session.run()
    }

    /// Returns the value of an input side packet. `None` if it is optional and not given.
    pub fn side<T: Payload>(&self, port: Side<T>) -> Option<&T> {
        self.side_packet(port)?.get()
    }

    /// Returns an input side packet of any type. `None` if it is optional and not given.
    pub fn side_packet<T: ?Sized + PortType>(&self, port: Side<T>) -> Option<&Packet> {
        match &self.sides[port.index()?] {
            SideValue::Packet(packet) => Some(packet),
            SideValue::Absent | SideValue::Resource(_) => None,
        }
    }

    /// Returns a resource that the contract requires.
    pub fn resource<R: Resource>(&self, port: Res<R>) -> Arc<R> {
        self.optional_resource(port)
            .expect("a plan holds every required resource of its nodes")
    }

    /// Returns a resource that the graph may leave unconnected.
    pub fn optional_resource<R: Resource>(&self, port: Res<R>) -> Option<Arc<R>> {
        match &self.sides[port.index()?] {
            SideValue::Resource(resource) => Arc::clone(resource).downcast().ok(),
            SideValue::Absent | SideValue::Packet(_) => None,
        }
    }

    /// Makes a sender for an event port. The node stays open while a sender exists.
    pub fn sender<T: Any + Send>(&mut self, port: Events<T>) -> EventSender<T> {
        EventSender::new(self.hold(), port)
    }

    /// Keeps the node open until the result is dropped, even after its inputs have closed.
    pub fn hold(&mut self) -> Hold {
        self.out.holds += 1;
        self.site.session.hold(self.site.node)
    }

    /// Emits a value before the first input, such as a header or the first turn of a loop.
    pub fn emit_at<T: Payload>(&mut self, port: Out<T>, time: impl Into<Timestamp>, value: T) {
        self.out.emit_at(port, time, value);
    }

    /// Gives access to the other outputs: bounds, whole packets, closing.
    pub fn out(&mut self) -> &mut Emits {
        self.out
    }

    /// Sets an output side packet. Each can be set once.
    pub fn output_side<T: Payload>(&mut self, port: OutSide<T>, value: T) {
        self.out.side(port, value);
    }
}

/// The context of one call of a calculator.
pub struct Cx<'a> {
    pub(crate) site: Site<'a>,
    pub(crate) set: &'a mut InputSet,
    pub(crate) out: &'a mut Emits,
}

impl Cx<'_> {
    /// Returns the timestamp of the call: that of the input set; 0 in a source; for an event, the
    /// first free timestamp of the node's outputs; [`Timestamp::DONE`] in `close`.
    pub fn time(&self) -> Timestamp {
        self.set.time()
    }

    /// Returns the name of the node, for messages.
    pub fn node_name(&self) -> &Arc<str> {
        self.site.name
    }

    /// Returns the context of the session's request.
    pub fn run(&self) -> &Arc<RunCx> {
        self.site.session.run()
    }

    /// Returns the session's error if it failed or was cancelled. Only `close` can see one; its
    /// output is then discarded.
    pub fn status(&self) -> Result<(), &Error> {
        self.site.ended.map_or(Ok(()), Err)
    }

    /// Returns the value on an input, if this call has one.
    pub fn get<T: Payload>(&self, port: In<T>) -> Option<&T> {
        self.set.get(port)
    }

    /// Takes the value of an input: moved if nobody else holds it, else cloned.
    pub fn take<T: Payload + Clone>(&mut self, port: In<T>) -> Option<T> {
        self.set.take(port)
    }

    /// Returns the packet on an input, if this call has one.
    pub fn packet<T: ?Sized + PortType>(&self, port: In<T>) -> Option<&Packet> {
        self.set.packet(port)
    }

    /// Takes the packet of an input, if this call has one.
    pub fn take_packet<T: ?Sized + PortType>(&mut self, port: In<T>) -> Option<Packet> {
        self.set.take_packet(port)
    }

    /// Returns the last settled timestamp of an input: that of its packet, or the last one that is
    /// certain to have no packet.
    pub fn settled<T: ?Sized + PortType>(&self, port: In<T>) -> Timestamp {
        self.set.settled(port)
    }

    /// Takes the event of this call, if it arrived at `port`.
    pub fn event<T: Any + Send>(&mut self, port: Events<T>) -> Option<T> {
        self.set.event(port)
    }

    /// Passes the packet of an input on unchanged, if this call has one.
    pub fn forward<T: ?Sized + PortType>(&mut self, input: In<T>, output: Out<T>) {
        if let Some(packet) = self.set.take_packet(input) {
            self.out.pass(output, packet);
        }
    }

    /// Emits a value at the call's timestamp; for an event and in `close`, at the first free one.
    pub fn emit<T: Payload>(&mut self, port: Out<T>, value: T) {
        self.out.emit(port, value);
    }

    /// Emits a value at the given timestamp.
    pub fn emit_at<T: Payload>(&mut self, port: Out<T>, time: impl Into<Timestamp>, value: T) {
        self.out.emit_at(port, time, value);
    }

    /// Promises that the output emits nothing before `at` any more.
    pub fn bound<T: ?Sized + PortType>(&mut self, port: Out<T>, at: Timestamp) {
        self.out.bound(port, at);
    }

    /// Gives access to the other outputs: whole packets, closing, side packets.
    pub fn out(&mut self) -> &mut Emits {
        self.out
    }

    /// Makes a sender for an event port during a call, for a node that waits for outside events
    /// only after it has asked for something.
    pub fn sender<T: Any + Send>(&mut self, port: Events<T>) -> EventSender<T> {
        EventSender::new(self.hold(), port)
    }

    /// Keeps the node open until the result is dropped, even after its inputs have closed.
    pub fn hold(&mut self) -> Hold {
        self.out.holds += 1;
        self.site.session.hold(self.site.node)
    }
}
