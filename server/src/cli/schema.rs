//! `graphmill schema`: what an editor needs to know of a `config.json`.

use std::process::ExitCode;

use super::report;
use crate::config;

pub(super) fn run() -> ExitCode {
    report::exit_code(report::print(&format!("{:#}\n", config::json_schema())))
}
