//! `graphmill schema`: prints the JSON schema of `config.json`, for editors.

use std::process::ExitCode;

use super::report;
use crate::config;

pub(super) fn run() -> ExitCode {
    report::exit_code(report::print(&format!("{:#}\n", config::json_schema())))
}
