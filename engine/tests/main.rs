//! The graph engine at its public boundary.
//! One program, because each takes long to link. Tests that watch their whole process have one of their own.

mod engine;
mod exchange;
mod interleavings;
