//! The words of a contract: what it can say of a node and its ports.

use crate::{
    packet::TypeInfo,
    port::{Group, PortType},
};

/// Where a calculator runs; `executor:` in the graph file overrides it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// In the session's own task. For work below 100 microseconds.
    Inline,
    /// On the executor of this name, `"cpu"` for instance, while the session's other nodes go on.
    Offload(&'static str),
}

/// How the timestamp bounds of a node's outputs follow from its inputs.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Offset {
    /// An output at `t` comes from the input at `t`: bounds are passed on, whether or not a packet
    /// is emitted. The default.
    #[default]
    Same,
    /// An output comes this much later (or, negative, earlier) than its input.
    By(i64),
    /// Outputs are not tied to inputs: bounds move only with packets, explicit bounds and the
    /// close.
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

/// The type a contract gives to a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortSpec {
    /// Any type.
    Any,
    /// This type only.
    Exact(TypeInfo),
    /// One of these types.
    OneOf(Vec<TypeInfo>),
    /// The type that another port of the same node has.
    SameAs(Group, u16),
}

impl PortSpec {
    pub(super) fn of<T: ?Sized + PortType>() -> Self {
        T::port_type().map_or(Self::Any, Self::Exact)
    }
}

/// How often a declared port may be connected.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly once.
    Required,
    /// Once or not at all.
    Optional,
    /// At least once, as `TAG:0`, `TAG:1`, ...
    Repeated,
    /// Any number of times.
    OptionalRepeated,
}

/// One declaration of a contract, as `describe` lists it.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) group: Group,
    pub(crate) tag: String,
    pub(crate) arity: Arity,
    pub(crate) spec: PortSpec,
}
