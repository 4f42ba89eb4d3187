//! The filters, tests and functions of jinja2, and those that transformers adds.

mod filters;
mod functions;
mod numbers;
mod sequences;
mod strings;
mod tests;

use minijinja::Environment;

use super::Clock;
pub(super) use functions::Raised;

/// Fills an empty environment.
pub(super) fn install(environment: &mut Environment<'static>, clock: Clock) {
    filters::install(environment);
    tests::install(environment);
    functions::install(environment, clock);
}
