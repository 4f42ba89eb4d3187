//! Timestamps: the order of packets in a stream, in microseconds by convention.
//!
//! The values at both ends of the range are special. [`Timestamp::next`] and [`Timestamp::prev`]
//! know which of them a stream may hold. The constants below are in ascending order, except
//! [`Timestamp::ZERO`].

use std::{
    fmt,
    ops::{Add, Sub},
};

use serde::{Serialize, Serializer};

/// A point on the timeline of a stream.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// No timestamp, as in a side packet.
    pub const UNSET: Self = Self(i64::MIN);
    /// Before everything else: the input timestamp while a node opens.
    pub const UNSTARTED: Self = Self(i64::MIN + 1);
    /// A packet here comes before all others and is the only one of its stream: a header.
    pub const PRE_STREAM: Self = Self(i64::MIN + 2);
    /// Smallest timestamp of ordinary packets.
    pub const MIN: Self = Self(i64::MIN + 3);
    /// Largest timestamp of ordinary packets.
    pub const MAX: Self = Self(i64::MAX - 3);
    /// A packet here comes after all others and is the only one of its stream: a summary.
    pub const POST_STREAM: Self = Self(i64::MAX - 2);
    /// A bound only: no packet can follow.
    pub const ONE_OVER_POST_STREAM: Self = Self(i64::MAX - 1);
    /// A bound only: the stream is closed. Also the input timestamp while a node closes.
    pub const DONE: Self = Self(i64::MAX);
    /// Timestamp zero, an ordinary one.
    pub const ZERO: Self = Self(0);

    /// Makes the ordinary timestamp nearest to `value`.
    pub const fn new(value: i64) -> Self {
        if value < Self::MIN.0 {
            Self::MIN
        } else if value > Self::MAX.0 {
            Self::MAX
        } else {
            Self(value)
        }
    }

    /// Returns the underlying number, special or not.
    pub const fn value(self) -> i64 {
        self.0
    }

    /// Returns `true` for an ordinary timestamp, from [`Self::MIN`] to [`Self::MAX`].
    pub const fn is_range(self) -> bool {
        self.0 >= Self::MIN.0 && self.0 <= Self::MAX.0
    }

    /// Returns `true` if a packet in a stream may have this timestamp.
    pub const fn is_allowed_in_stream(self) -> bool {
        self.0 >= Self::PRE_STREAM.0 && self.0 <= Self::POST_STREAM.0
    }

    /// Returns the smallest timestamp that may follow a packet at this one.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 >= Self::MAX.0 || self.0 == Self::PRE_STREAM.0 {
            Self::ONE_OVER_POST_STREAM
        } else if self.0 < Self::MIN.0 {
            Self::MIN
        } else {
            Self(self.0 + 1)
        }
    }

    /// Returns the largest timestamp that is settled if this one is the bound.
    #[must_use]
    pub const fn prev(self) -> Self {
        if self.0 <= Self::MIN.0 || self.0 == Self::POST_STREAM.0 {
            Self::UNSTARTED
        } else if self.0 > Self::MAX.0 {
            Self::MAX
        } else {
            Self(self.0 - 1)
        }
    }

    /// Moves an ordinary timestamp by `offset`, within the ordinary range. Special values stay
    /// unchanged.
    #[must_use]
    pub const fn shift(self, offset: i64) -> Self {
        if self.is_range() {
            Self::new(self.0.saturating_add(offset))
        } else {
            self
        }
    }

    /// Returns the bound of an output with timestamp offset `offset`, once the input at this
    /// timestamp is processed.
    pub(crate) const fn offset_bound(self, offset: i64) -> Self {
        match self {
            Self::PRE_STREAM => Self::MIN,
            Self::MAX if offset >= 0 => Self::POST_STREAM,
            Self::MAX => self.shift(offset).next(),
            Self::POST_STREAM => Self::ONE_OVER_POST_STREAM,
            _ => self.next().shift(offset),
        }
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<i64> for Timestamp {
    fn from(value: i64) -> Self {
        Self::new(value)
    }
}

impl Add<i64> for Timestamp {
    type Output = Self;
    fn add(self, offset: i64) -> Self {
        self.shift(offset)
    }
}

impl Sub for Timestamp {
    type Output = i64;
    /// Returns the distance, saturating at the ends of `i64`.
    fn sub(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNSET => f.write_str("Unset"),
            Self::UNSTARTED => f.write_str("Unstarted"),
            Self::PRE_STREAM => f.write_str("PreStream"),
            Self::MIN => f.write_str("Min"),
            Self::MAX => f.write_str("Max"),
            Self::POST_STREAM => f.write_str("PostStream"),
            Self::ONE_OVER_POST_STREAM => f.write_str("OneOverPostStream"),
            Self::DONE => f.write_str("Done"),
            Self(value) => write!(f, "{value}"),
        }
    }
}

impl Serialize for Timestamp {
    /// Writes a number, or the name of a special value.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_range() && *self != Self::MIN && *self != Self::MAX {
            serializer.serialize_i64(self.0)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{self}")
    }
}
