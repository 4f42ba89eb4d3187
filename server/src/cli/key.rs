//! `graphmill key`: generates an API key.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Args;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

use super::report;
use crate::keys::{Digest, check_name};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the key in metrics and in the log.
    name: String,
}

/// Random bytes in a key, too many to guess.
const BYTES: usize = 32;

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Err(why) = check_name(&arguments.name) {
        report::error(&format!("`{}`: a name {why}", arguments.name));
        return ExitCode::FAILURE;
    }
    let mut bytes = [0; BYTES];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        report::error("the system has no random bytes");
        return ExitCode::FAILURE;
    }
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    let key = format!("gm-{}", digits.collect::<String>());
    let entry = json!({
        "name": arguments.name,
        "sha256": Digest::new(key.as_bytes()).to_string(),
    });
    report::note(&format!(
        "the key of `{}`, which is not stored anywhere, and its entry in `keys` of the key file:",
        arguments.name
    ));
    match writeln!(io::stdout(), "{key}\n{entry}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::error(&format!("the key cannot be written: {error}"));
            ExitCode::FAILURE
        }
    }
}
