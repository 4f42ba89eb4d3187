//! The adapters that a sequence is computed with.

use std::array;

use crate::settings::Number;

/// Maximum number of adapters of a sequence.
pub const MAX_ADAPTERS: usize = 4;

/// An adapter of the spec, and its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adapter {
    /// Index in the adapters of the spec, from 0.
    pub number: u32,
    /// Strength of the adapter: 1 applies it as it was trained.
    pub scale: Number,
}

/// Adapters that change a model together, in the order of their numbers; none for the plain model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adapters([Option<Adapter>; MAX_ADAPTERS]);

impl Adapters {
    /// Creates a set of adapters. Adapters with the scale 0 change nothing and are omitted.
    ///
    /// # Errors
    /// A message if there are more than [`MAX_ADAPTERS`], or two with the same number.
    pub fn new(adapters: impl IntoIterator<Item = Adapter>) -> Result<Self, String> {
        let adapters = adapters.into_iter().filter(|it| it.scale.get() != 0.0);
        let mut adapters: Vec<_> = adapters.collect();
        adapters.sort_unstable();
        if adapters.windows(2).any(|it| it[0].number == it[1].number) {
            return Err("names an adapter twice".to_owned());
        }
        let count = adapters.len();
        if count > MAX_ADAPTERS {
            return Err(format!(
                "names {count} adapters, but a text can have at most {MAX_ADAPTERS}"
            ));
        }
        Ok(Self(array::from_fn(|place| adapters.get(place).copied())))
    }

    /// Iterates over the adapters, the lowest number first.
    pub fn iter(&self) -> impl Iterator<Item = Adapter> {
        self.0.iter().copied().flatten()
    }
}

impl From<Adapter> for Adapters {
    fn from(adapter: Adapter) -> Self {
        Self::new([adapter]).expect("one adapter is not too many")
    }
}
