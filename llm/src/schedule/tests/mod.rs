//! Workloads played through the scheduler on a virtual clock.

mod cost;
mod fairness;
mod latency;
mod properties;
mod rules;
mod simulate;
