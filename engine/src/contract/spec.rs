//! Values of declarations: executors, offsets, port types and numbers of connections.

use crate::{
    packet::TypeInfo,
    port::{Group, PortType},
};

/// The place where a calculator runs. `executor:` in the graph file overrides it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// In the session's own task. For work that takes less than 100 microseconds.
    Inline,
    /// On the executor of this name, such as `"cpu"`. The session's other nodes continue meanwhile.
    Offload(&'static str),
}

/// The relation between the timestamp bounds of a node's inputs and outputs.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Offset {
    /// Outputs have the timestamps of their inputs. Bounds are passed on, whether or not a packet
    /// is emitted. The default.
    #[default]
    Same,
    /// Outputs come this much later than their inputs, or earlier if negative.
    By(i64),
    /// Outputs are independent of inputs. Only packets, explicit bounds and the close move their
    /// bounds.
    Unset,
}

impl Offset {
    pub(crate) fn value(self) -> Option<i64> {
        match self {
            Self::Same => Some(0),
            Self::By(offset) => Some(offset),
            Self::Unset => None,
        }
    }
}

/// The type that a contract gives to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortSpec {
    /// Packets of any type, even mixed.
    Any,
    /// Packets of this type only.
    Exact(TypeInfo),
    /// Packets of any of these types.
    OneOf(Vec<TypeInfo>),
    /// The type of another port of the same node.
    SameAs(Group, u16),
}

impl PortSpec {
    pub(super) fn for_type<T: ?Sized + PortType>() -> Self {
        T::port_type().map_or(Self::Any, Self::Exact)
    }
}

/// The number of connections that a declared port may have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one connection; otherwise an error.
    Required,
    /// At most one connection; an unconnected port carries nothing.
    Optional,
    /// One or more connections, as `TAG:0`, `TAG:1`, ...
    Repeated,
    /// Any number of connections, including none.
    OptionalRepeated,
}

/// One declaration of a contract, as listed by `describe`.
#[derive(Clone, Debug)]
pub(crate) struct PortDeclaration {
    pub(crate) group: Group,
    pub(crate) tag: String,
    pub(crate) arity: Arity,
    pub(crate) spec: PortSpec,
}
