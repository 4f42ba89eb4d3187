//! Errors of the command line in plain English. For a value from a variable or a file, they name
//! its origin.

use std::{ffi::OsString, io::IsTerminal as _};

use clap::{
    Command, Error,
    error::{ContextKind, ContextValue},
};

use super::serve::properties::PropertiesExpansion;
use crate::telemetry::log;

/// Messages of Rust's parsers, and their replacements.
#[rustfmt::skip]
const WORDS: [(&str, &str); 7] = [
    ("invalid digit found in string", "expected a whole number"),
    ("cannot parse integer from empty string", "expected a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "expected a number"),
    ("cannot parse float from empty string", "expected a number"),
    ("invalid port value", "expected a port"),
];

/// Ends the process with an error of the command line. `arguments` contains the values that were
/// read from a file.
pub(super) fn leave(
    error: &Error,
    command: &Command,
    arguments: &[OsString],
    expanded: &PropertiesExpansion,
) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let text = match error.render() {
        text if std::io::stderr().is_terminal() => text.ansi().to_string(),
        text => text.to_string(),
    };
    let mut lines: Vec<String> = text.trim_end().lines().map(plain).collect();
    if let Some(origin) = origin(error, command, arguments, expanded) {
        lines.insert(1, format!("  the value is from {origin}"));
    }
    log::print(&lines.join("\n"));
    std::process::exit(error.exit_code());
}

/// Returns the first line of an error of the command line, with the origin of the value.
pub(super) fn in_short(
    error: &Error,
    command: &Command,
    arguments: &[OsString],
    expanded: &PropertiesExpansion,
) -> String {
    let text = error.render().to_string();
    let line = plain(text.lines().next().unwrap_or_default());
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    match origin(error, command, arguments, expanded) {
        Some(origin) => format!("{line}; the value is from {origin}"),
        None => line.to_owned(),
    }
}

/// Returns the names of the flags in a command line.
pub(super) fn flag_names(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    let flags = arguments.iter();
    let flags = flags.filter_map(|it| it.to_str()?.strip_prefix("--"));
    flags.map(|flag| flag.split_once('=').map_or(flag, |(name, _)| name))
}

/// Returns the variable or the file key that gave the flag of an error its value.
fn origin(
    error: &Error,
    command: &Command,
    arguments: &[OsString],
    expanded: &PropertiesExpansion,
) -> Option<String> {
    let Some(ContextValue::String(usage)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = usage.strip_prefix("--")?.split([' ', '=']).next()?;
    if let Some((_, key)) = expanded.keys.iter().find(|(known, _)| *known == flag) {
        return Some(format!("`{key}` in `{}`", expanded.file));
    }
    if flag_names(arguments).any(|name| name == flag) {
        return None;
    }
    let verb = command.find_subcommand(arguments.get(1)?)?;
    let mut flags = verb.get_arguments();
    let argument = flags.find(|it| it.get_long() == Some(flag))?;
    let variable = argument.get_env()?.to_str()?;
    Some(format!("the variable `{variable}`"))
}

/// Rewrites a line in plain English.
fn plain(line: &str) -> String {
    let mut line = line.to_owned();
    for (words, plain) in WORDS {
        line = line.replace(words, plain);
    }
    ranged(&line).unwrap_or(line)
}

/// Rewrites a line about a number out of range: `70000 is not in 0..=65535`.
fn ranged(line: &str) -> Option<String> {
    let (before, range) = line.rsplit_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let (before, number) = before.rsplit_once(' ')?;
    Some(match most.strip_prefix('=') {
        Some(most) => format!("{before} {number} is not between {least} and {most}"),
        None => format!("{before} {number} is less than {least}"),
    })
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn lines_are_told_plainly() {
        for (line, told) in [
            (
                "error: invalid value '3.5' for '--a <A>': invalid digit found in string",
                "error: invalid value '3.5' for '--a <A>': expected a whole number",
            ),
            (
                "error: invalid value '-1' for '--a <A>': -1 is not in 0..=255",
                "error: invalid value '-1' for '--a <A>': -1 is not between 0 and 255",
            ),
            ("x: 0 is not in 1..", "x: 0 is less than 1"),
            ("what is not in here", "what is not in here"),
        ] {
            assert_eq!(plain(line), told);
        }
    }
}
