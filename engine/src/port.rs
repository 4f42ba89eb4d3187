//! Groups of ports, and the port handles that calculators use.
//!
//! A handle is a small typed number, resolved when the plan is compiled. So nothing is looked up by
//! name while packets flow. Handles of optional ports that the graph leaves unconnected are valid:
//! reading one finds nothing, writing to one does nothing.

use std::{marker::PhantomData, ops::Range};

use crate::{
    packet::{Payload, TypeInfo},
    resource::Resource,
};

/// The four groups of a node's ports.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Field `input_stream`: packets with timestamps that the node reads.
    Inputs,
    /// Field `output_stream`: packets with timestamps that the node emits.
    Outputs,
    /// Field `input_side_packet`: values that are set before the node opens.
    InputSides,
    /// Field `output_side_packet`: values that the node sets once.
    OutputSides,
}

impl Group {
    /// All groups in the order of their declaration.
    pub(crate) const ALL: [Self; 4] = [
        Self::Inputs,
        Self::Outputs,
        Self::InputSides,
        Self::OutputSides,
    ];

    /// Returns the name of one port of the group, for messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Inputs => "input stream",
            Self::Outputs => "output stream",
            Self::InputSides => "input side packet",
            Self::OutputSides => "output side packet",
        }
    }

    /// Returns the field of a node that lists the ports of the group.
    pub fn field(self) -> &'static str {
        match self {
            Self::Inputs => "input_stream",
            Self::Outputs => "output_stream",
            Self::InputSides => "input_side_packet",
            Self::OutputSides => "output_side_packet",
        }
    }
}

/// Index of a port that the graph does not connect.
const ABSENT: u16 = u16::MAX;

/// The type of a port: any payload type, or `dyn Payload` for a port of any type.
pub trait PortType: 'static {
    #[doc(hidden)]
    fn port_type() -> Option<TypeInfo>;
}

impl<T: Payload> PortType for T {
    fn port_type() -> Option<TypeInfo> {
        Some(TypeInfo::new::<T>())
    }
}

impl PortType for dyn Payload {
    fn port_type() -> Option<TypeInfo> {
        None
    }
}

macro_rules! port {
    ($(#[$doc:meta])* $name:ident $bound:path) => {
        $(#[$doc])*
        pub struct $name<T: ?Sized>(u16, PhantomData<fn() -> Box<T>>);

        impl<T: ?Sized> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T: ?Sized> Copy for $name<T> {}

        impl<T: ?Sized> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl<T: ?Sized + $bound> $name<T> {
            pub(crate) const fn new(index: u16) -> Self {
                Self(index, PhantomData)
            }

            #[allow(dead_code, reason = "one macro makes all handle types; an event port is always there")]
            pub(crate) const fn absent() -> Self {
                Self(ABSENT, PhantomData)
            }

            #[allow(dead_code, reason = "one macro makes all handle types; an event port is always there")]
            pub(crate) fn at(index: Option<u16>) -> Self {
                index.map_or(Self::absent(), Self::new)
            }

            #[allow(dead_code, reason = "one macro makes all handle types; not every one is read by index")]
            pub(crate) const fn index(self) -> Option<usize> {
                if self.0 == ABSENT { None } else { Some(self.0 as usize) }
            }

            /// Returns `true` if the graph connects the port.
            pub const fn is_connected(self) -> bool {
                self.0 != ABSENT
            }
        }
    };
}

/// A bound that every type meets. Handles without a type bound use it in the macro below.
pub trait Anything {}
impl<T: ?Sized> Anything for T {}

port! {
    /// An input stream of a node.
    In PortType
}
port! {
    /// An output stream of a node.
    Out PortType
}
port! {
    /// An input side packet of a node.
    Side PortType
}
port! {
    /// An output side packet of a node.
    OutSide PortType
}
port! {
    /// A resource of a node, shared with other sessions.
    Res Resource
}
port! {
    /// An event port: values that other code sends to the node.
    Events Anything
}

macro_rules! ports {
    ($(#[$doc:meta])* $name:ident of $one:ident) => {
        $(#[$doc])*
        pub struct $name<T: ?Sized> {
            start: u16,
            end: u16,
            of: PhantomData<fn() -> Box<T>>,
        }

        impl<T: ?Sized> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T: ?Sized> Copy for $name<T> {}

        impl<T: ?Sized> std::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({}..{})"), self.start, self.end)
            }
        }

        impl<T: ?Sized + PortType> $name<T> {
            pub(crate) const fn new(range: Range<u16>) -> Self {
                Self { start: range.start, end: range.end, of: PhantomData }
            }

            /// Returns the number of connected ports.
            pub const fn len(self) -> usize {
                (self.end - self.start) as usize
            }

            /// Returns `true` if the graph connects none of the ports.
            pub const fn is_empty(self) -> bool {
                self.start == self.end
            }

            /// Returns the port with this index.
            pub const fn get(self, index: usize) -> Option<$one<T>> {
                if index < self.len() { Some($one::new(self.start + index as u16)) } else { None }
            }

            /// Returns the last port and the ports before it.
            pub const fn split_last(self) -> Option<($one<T>, Self)> {
                if self.is_empty() {
                    return None;
                }
                let last = self.end - 1;
                Some(($one::new(last), Self::new(self.start..last)))
            }

            /// Iterates over the ports by index.
            pub fn iter(self) -> impl ExactSizeIterator<Item = $one<T>> + use<T> {
                (self.start..self.end).map($one::new)
            }
        }
    };
}

ports! {
    /// The input streams `TAG:0`, `TAG:1`, ... of a node.
    Ins of In
}
ports! {
    /// The output streams `TAG:0`, `TAG:1`, ... of a node.
    Outs of Out
}
ports! {
    /// The input side packets `TAG:0`, `TAG:1`, ... of a node.
    Sides of Side
}
ports! {
    /// The output side packets `TAG:0`, `TAG:1`, ... of a node.
    OutSides of OutSide
}
