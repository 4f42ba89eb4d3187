//! Packets: immutable values of any type with a timestamp, shared by reference count.
//!
//! Packets are typed at the edges ([`Packet::new`], [`Packet::get`]) and erased in between, so
//! streams of all types cost the same.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock},
};

use crate::timestamp::Timestamp;

/// A type that can travel in a packet. Implemented for every suitable type.
pub trait Payload: Any + Send + Sync + fmt::Debug {
    #[doc(hidden)]
    fn type_info(&self) -> TypeInfo;
}

impl<T: Any + Send + Sync + fmt::Debug> Payload for T {
    fn type_info(&self) -> TypeInfo {
        TypeInfo::new::<T>()
    }
}

/// A value with a timestamp. Cloning shares the value.
#[derive(Clone)]
pub struct Packet {
    /// Position in the stream; [`Timestamp::UNSET`] in a side packet.
    pub time: Timestamp,
    value: Arc<dyn Payload>,
}

impl Packet {
    /// Makes a packet of `value` at `time`.
    pub fn new<T: Payload>(time: impl Into<Timestamp>, value: T) -> Self {
        Self {
            time: time.into(),
            value: Arc::new(value),
        }
    }

    /// Makes a side packet: a value without a timestamp.
    pub fn side<T: Payload>(value: T) -> Self {
        Self::new(Timestamp::UNSET, value)
    }

    /// Returns the packet with another timestamp.
    #[must_use]
    pub fn at(mut self, time: impl Into<Timestamp>) -> Self {
        self.time = time.into();
        self
    }

    /// Returns the value, if it is a `T`.
    pub fn get<T: Payload>(&self) -> Option<&T> {
        (&*self.value as &dyn Any).downcast_ref()
    }

    /// Returns the owned value, if it is a `T` and nobody else holds it; otherwise the packet.
    pub fn into_inner<T: Payload>(self) -> Result<T, Self> {
        if !self.is::<T>() {
            return Err(self);
        }
        let time = self.time;
        let value: Arc<dyn Any + Send + Sync> = self.value;
        let typed = value.downcast::<T>().expect("the type was just checked");
        Arc::try_unwrap(typed).map_err(|value| Self { time, value })
    }

    /// Returns the owned value: moved if nobody else holds it, else cloned. `None` if it is not a
    /// `T`.
    pub fn into_value<T: Payload + Clone>(self) -> Option<T> {
        match self.into_inner::<T>() {
            Ok(value) => Some(value),
            Err(packet) => packet.get::<T>().cloned(),
        }
    }

    /// Returns `true` if the value is a `T`.
    pub fn is<T: Payload>(&self) -> bool {
        self.type_info().id() == TypeId::of::<T>()
    }

    /// Returns the type of the value.
    pub fn type_info(&self) -> TypeInfo {
        (*self.value).type_info()
    }

    /// Returns the value without its type, for printing.
    pub fn payload(&self) -> &dyn Payload {
        &*self.value
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}", self.value, self.time)
    }
}

/// The type of a payload, for comparison and for messages.
#[derive(Copy, Clone)]
pub struct TypeInfo {
    id: fn() -> TypeId,
    path: fn() -> &'static str,
}

impl TypeInfo {
    /// Returns the type information of `T`.
    pub const fn new<T: 'static>() -> Self {
        Self {
            id: TypeId::of::<T>,
            path: std::any::type_name::<T>,
        }
    }

    /// Returns Rust's identifier of the type.
    pub fn id(self) -> TypeId {
        (self.id)()
    }

    /// Returns the type's name for messages. This is the name that
    /// [`register_payload!`](crate::register_payload) gives it, such as `int` for an `i64`. Other
    /// types have Rust's name without module paths: `alloc::vec::Vec<u32>` is `Vec<u32>`.
    pub fn name(self) -> String {
        let registered = NAMES.get(&self.id());
        registered.map_or_else(|| self.rust_name(), |name| (*name).to_owned())
    }

    fn rust_name(self) -> String {
        let mut short = String::new();
        let mut segment = String::new();
        for c in (self.path)().chars() {
            match c {
                ':' => segment.clear(),
                c if c.is_alphanumeric() || c == '_' => segment.push(c),
                c => {
                    short.push_str(&segment);
                    segment.clear();
                    short.push(c);
                }
            }
        }
        short.push_str(&segment);
        short
    }
}

impl PartialEq for TypeInfo {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for TypeInfo {}

impl fmt::Debug for TypeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Display for TypeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Joins the names of types for messages: `` `int` or `float` ``.
pub(crate) fn type_names(types: &[TypeInfo]) -> String {
    let names: Vec<String> = types.iter().map(|of| format!("`{of}`")).collect();
    names.join(" or ")
}

/// The name of a payload type, as registered by [`register_payload!`](crate::register_payload).
#[doc(hidden)]
pub struct TypeName {
    of: TypeInfo,
    name: &'static str,
}

impl TypeName {
    #[doc(hidden)]
    pub const fn new<T: Payload>(name: &'static str) -> Self {
        let of = TypeInfo::new::<T>();
        Self { of, name }
    }
}

inventory::collect!(TypeName);

static NAMES: LazyLock<HashMap<TypeId, &'static str>> = LazyLock::new(|| {
    let all = inventory::iter::<TypeName>.into_iter();
    all.map(|it| (it.of.id(), it.name)).collect()
});
