//! Workloads played through the scheduler on a virtual clock.

mod cost;
mod latency;
mod properties;
mod rules;
mod simulate;
