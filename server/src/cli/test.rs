//! `graphmill test`: runs tests of graphs, without a server and without a model.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use super::{registry, report, runtime, search};
use crate::offline::{
    test_file::{CaseOutcome, TestFile},
    update,
};

/// File name extension of tests.
const ENDING: &str = ".test.toml";

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct TestArguments {
    /// Test files, or folders to search for files named `*.test.toml`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Runs only cases with this text in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Replaces expected packets in the files with the actual ones where they differ.
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    subgraphs: registry::SubgraphFlags,
}

/// Numbers of cases by result.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    updated: usize,
}

pub(super) fn run(arguments: &TestArguments) -> Result<ExitCode, String> {
    let files = search::files(&arguments.files, ENDING)?;
    let runtime = runtime()?;
    let mut tally = Tally::default();
    for file in &files {
        if let Err(problem) = runtime.block_on(test(file, arguments, &mut tally)) {
            say(&format!("{}: {problem}\n", file.display()));
            tally.failed += 1;
        }
    }
    runtime.shutdown_background();
    let updated = match tally.updated {
        0 => String::new(),
        count => format!(", {count} updated"),
    };
    let Tally { passed, failed, .. } = tally;
    let summary = report::print(&format!("{passed} passed, {failed} failed{updated}\n"));
    if let (Some(part), 0) = (&arguments.only, passed + failed + tally.updated) {
        report::error(&format!("no case has `{part}` in its name (--only)"));
    }
    if failed > 0 || passed + tally.updated == 0 {
        Ok(ExitCode::FAILURE)
    } else {
        summary
    }
}

/// Runs the cases of a file. The error is about the file as a whole.
async fn test(path: &Path, arguments: &TestArguments, tally: &mut Tally) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file = TestFile::parse(&text)?;
    let bench = file.bench(path, &arguments.subgraphs.named()?)?;
    let document = arguments.update.then(|| update::TestDocument::parse(&text));
    let mut document = document.transpose()?;
    let only = arguments.only.as_deref().unwrap_or_default();
    let cases = file.cases.iter().enumerate();
    for (at, case) in cases.filter(|(_, case)| case.name.contains(only)) {
        let CaseOutcome { failure, outputs } = bench.run(case).await;
        let title = format!("{}: {}", path.display(), case.name);
        let mut update = || document.as_mut().is_some_and(|it| it.set(at, &outputs));
        match failure {
            None => {
                tally.passed += 1;
                say(&format!("ok      {title}\n"));
            }
            Some(_) if update() => {
                tally.updated += 1;
                say(&format!("updated {title}\n"));
            }
            Some(failure) => {
                tally.failed += 1;
                say(&format!("FAILED  {title}\n{}\n", painted(&failure)));
            }
        }
    }
    match document {
        Some(document) if document.text() != text => {
            std::fs::write(path, document.text()).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    }
}

fn say(text: &str) {
    // Fails if the reader closes its end early, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Indents a text. On a terminal, the lines of a difference are colored.
fn painted(text: &str) -> String {
    let color = io::stdout().is_terminal();
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'-') if color => format!("    \u{1b}[31m{line}\u{1b}[0m\n"),
        Some(b'+') if color => format!("    \u{1b}[32m{line}\u{1b}[0m\n"),
        _ => format!("    {line}\n"),
    };
    text.lines().map(line).collect()
}
