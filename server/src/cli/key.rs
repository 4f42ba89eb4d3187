//! `graphmill key`: generates an API key.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Args;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

use super::report;
use crate::{
    hub::hex,
    keys::{Digest, check_name},
};

#[derive(Debug, Args)]
pub(super) struct KeyArguments {
    /// Name of the key in metrics and in the log.
    name: String,
}

/// Random bytes in a key, too many to guess.
const BYTES: usize = 32;

pub(super) fn run(arguments: &KeyArguments) -> Result<ExitCode, String> {
    let name = &arguments.name;
    check_name(name).map_err(|why| format!("`{name}`: a name {why}"))?;
    let mut bytes = [0; BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the system has no random bytes")?;
    let key = format!("gm-{}", hex(&bytes));
    let entry = json!({ "name": name, "sha256": Digest::new(key.as_bytes()).to_string() });
    report::note(&format!(
        "the key of `{name}`, which is not stored anywhere, and its entry in `keys` of the key file:"
    ));
    writeln!(io::stdout(), "{key}\n{entry}")
        .map_err(|error| format!("the key cannot be written: {error}"))?;
    Ok(ExitCode::SUCCESS)
}
