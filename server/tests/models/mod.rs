//! What files of models do to a server: none ends it.

mod changed;
mod damaged;
mod fuzz;
#[cfg(target_os = "linux")]
mod resident;
mod server;
mod texts;
