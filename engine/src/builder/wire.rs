//! Wires: streams and side packets of a graph that is being built, with the type that they carry.

use std::{
    cell::{OnceCell, RefCell},
    fmt,
    marker::PhantomData,
    rc::Rc,
};

use crate::{packet::Payload, port::PortType};

/// What a stream or side packet is called: as somebody said, or, once the graph is written, after
/// where it comes from.
#[derive(Debug, Default)]
pub(super) struct Name {
    given: OnceCell<String>,
    /// What a made-up name begins with.
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

    /// Gives the name, unless another was given.
    pub(super) fn give(&self, name: &str) -> Result<(), &str> {
        let known = self.given.get_or_init(|| name.to_owned());
        if known == name { Ok(()) } else { Err(known) }
    }

    pub(super) fn is_given(&self) -> bool {
        self.given.get().is_some()
    }

    /// Makes a name up that is not taken.
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

/// Says that what carries `Self` may be connected to a port of `T`: the types are the same, or one
/// of them is any type, `dyn Payload`, and the plan finds out.
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

            /// The same wire without its type.
            #[must_use]
            pub fn any(&self) -> $name {
                $name::new(Rc::clone(&self.name))
            }
        }

        impl $name {
            /// The same wire with type `T`. Where a port says otherwise, the graph does not
            /// compile.
            #[must_use]
            pub fn of<T: Payload>(&self) -> $name<T> {
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
    /// A stream of a graph that is being built, carrying `T`; without a type, anything. Cloning it
    /// names the same stream.
    Wire
}
wire! {
    /// A side packet of a graph that is being built. Cloning it names the same side packet.
    SideWire
}
