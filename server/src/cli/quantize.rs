//! `graphmill quantize`: quantizes the weights of a model file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use clap::{Args, builder::PossibleValuesParser, value_parser};
use graphmill_llm::{
    LoadError,
    weights::{self, Quantizing, TYPES},
};

use super::{progress, report};
use crate::{
    hub::bytes,
    telemetry::log::{self, Level, LogFormat},
};

/// Prefix of progress lines, by which a parent process finds them in the output.
pub(super) const QUANTIZING: &str = "quantizing ";

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct QuantizeArguments {
    /// Model to read: a `.gguf` file, or the first part of a split one.
    input: PathBuf,
    /// File to write. An existing file is an error without `--force`.
    output: PathBuf,
    /// Type of the weights: `Q4_K_M` is small, `Q8_0` loses almost no quality.
    #[arg(value_name = "TYPE", value_parser = PossibleValuesParser::new(TYPES.map(|(name, _)| name)), ignore_case = true)]
    kind: String,
    /// Overwrites the output file if it exists.
    #[arg(long)]
    force: bool,
    /// Quantizes weights that are already quantized, which costs quality.
    #[arg(long)]
    allow_requantize: bool,
    /// Number of threads that compute [default: one for each CPU].
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u32).range(1..=1_024))]
    threads: Option<u32>,
}

pub(super) fn run(arguments: &QuantizeArguments) -> Result<ExitCode, String> {
    log::start(Level::Error, LogFormat::Text, None)?;
    let (input, output) = (&arguments.input, &arguments.output);
    let shown = output.display();
    let size = |path: &Path| fs::metadata(path).map(|found| found.len());
    let before =
        size(input).map_err(|error| format!("cannot read `{}`: {error}", input.display()))?;
    if output.exists() {
        let whole = |path: &Path| path.canonicalize().ok();
        if whole(output) == whole(input) {
            return Err(format!(
                "`{shown}` is the input: choose another output file"
            ));
        }
        if !arguments.force {
            return Err(format!("`{shown}` already exists: --force overwrites it"));
        }
    }
    let number = TYPES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(&arguments.kind));
    let (name, number) = *number.ok_or("clap knows the types")?;
    let cpus = || thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let wanted = Quantizing {
        number,
        threads: arguments.threads.unwrap_or_else(cpus),
        again: arguments.allow_requantize,
    };
    // The file gets its name once it is complete.
    let mut part = output.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let unwritable = |error| format!("cannot write `{shown}`: {error}");
    fs::File::create(&part).map_err(unwritable)?;
    let part_done = || {
        let (done, all) = weights::quantized();
        let part = done as f32 / all.max(1) as f32;
        Some((format!("{QUANTIZING}{:.0} %", part * 100.0), part))
    };
    let written = progress::shown_while(part_done, || weights::quantize(input, &part, &wanted));
    let told = |error| match error {
        LoadError::Model { message, .. } => {
            let hint = if message.contains("requantizing") {
                ": `graphmill quantize --allow_requantize` does it, but quality suffers"
            } else {
                ""
            };
            format!("cannot quantize `{}`: {message}{hint}", input.display())
        }
        other => other.to_string(),
    };
    let written = written
        .map_err(told)
        .and_then(|()| fs::rename(&part, output).map_err(unwritable));
    if written.is_err() {
        // Removes the incomplete file, if there is one.
        fs::remove_file(&part).ok();
    }
    written?;
    let after = size(output).unwrap_or_default();
    report::note(&format!(
        "`{shown}` is {name}: {}, before {}",
        bytes(after),
        bytes(before)
    ));
    Ok(ExitCode::SUCCESS)
}
