//! Wires: streams and side packets of a graph under construction, with the types that they carry.

use std::{
    cell::{OnceCell, RefCell},
    fmt,
    marker::PhantomData,
    rc::Rc,
};

use crate::{packet::Payload, port::PortType};

/// The name of a stream or side packet. A name that was given wins. Otherwise one is derived from
/// its origin when the graph is written.
#[derive(Debug, Default)]
pub(super) struct Name {
    given: OnceCell<String>,
    /// Start of a derived name.
    base: String,
    made_up: RefCell<String>,
}

impl Name {
    pub(super) fn given(name: &str) -> Rc<Self> {
        Rc::new(Self {
            given: OnceCell::from(name.to_owned()),
            ..Self::default()
        })
    }

    pub(super) fn after(base: String) -> Rc<Self> {
        Rc::new(Self {
            base,
            ..Self::default()
        })
    }

    /// Sets the name. Returns the earlier name if a different one was set.
    pub(super) fn give(&self, name: &str) -> Result<(), &str> {
        let known = self.given.get_or_init(|| name.to_owned());
        if known == name { Ok(()) } else { Err(known) }
    }

    pub(super) fn is_given(&self) -> bool {
        self.given.get().is_some()
    }

    /// Derives a name that is not taken yet.
    pub(super) fn make_up(&self, mut taken: impl FnMut(&str) -> bool) {
        let mut name = self.base.clone();
        let mut number = 1;
        while taken(&name) {
            number += 1;
            name = format!("{}_{number}", self.base);
        }
        self.made_up.replace(name);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.given.get() {
            Some(name) => f.write_str(name),
            None => f.write_str(&self.made_up.borrow()),
        }
    }
}

/// Allows a wire of type `Self` on a port of type `T`. The types are the same, or one of them is
/// `dyn Payload`, which is any type: then compilation checks the match.
pub trait Fits<T: ?Sized> {}

impl<T: Payload> Fits<T> for T {}
impl<T: Payload> Fits<dyn Payload> for T {}
impl<T: Payload> Fits<T> for dyn Payload {}
impl Fits<Self> for dyn Payload {}

macro_rules! wire {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T: ?Sized = dyn Payload> {
            pub(super) name: Rc<Name>,
            of: PhantomData<fn() -> Box<T>>,
        }

        impl<T: ?Sized + PortType> $name<T> {
            pub(super) fn new(name: Rc<Name>) -> Self {
                Self { name, of: PhantomData }
            }

            /// Returns the same wire without its type.
            #[must_use]
            pub fn any(&self) -> $name {
                $name::new(Rc::clone(&self.name))
            }
        }

        impl<T: ?Sized> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self { name: Rc::clone(&self.name), of: PhantomData }
            }
        }

        impl<T: ?Sized> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.name)
            }
        }
    };
}

wire! {
    /// A stream of a graph under construction with packets of type `T`, or of any type. A clone is
    /// the same stream.
    Wire
}
wire! {
    /// A side packet of a graph under construction. A clone is the same side packet.
    SideWire
}
