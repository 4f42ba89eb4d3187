//! The command line, with a file for each command. Flags can be spelled with underscores, as in
//! OpenVINO Model Server, or with dashes.

mod access;
mod archive;
mod calculators;
mod chat;
mod check;
mod client;
mod completions;
mod describe;
mod diff;
mod ending;
mod explain;
mod fmt;
mod heading;
mod key;
mod listening;
mod mistakes;
mod models;
mod openmp;
mod processor;
mod progress;
mod quantize;
mod record;
mod registry;
mod replay;
mod report;
mod run;
mod search;
mod serve;
mod server;
mod service;
mod source;
mod spelling;
mod tap;
mod telemetry;
mod test;
mod top;
mod why;

use std::{env, ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
#[cfg(feature = "onnxruntime")]
use graphmill_calculators::onnx::{LIBRARY_VARIABLE, use_library};
use graphmill_calculators::text::chat_template::ChatTemplate;
use graphmill_llm::trial::{self, FileTrial, Knowledge};
use tokio::runtime::{Builder, Runtime};

use crate::{config, telemetry::log};

/// Serves inference pipelines that are written as dataflow graphs.
#[derive(Debug, Parser)]
#[command(name = "graphmill", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "Examples:
  graphmill serve model.gguf                serve a model at http://127.0.0.1:8000
  graphmill serve org/repo:Q4_K_M           download a model from Hugging Face, and serve it
  graphmill chat model.gguf                 talk to a model without a server
  graphmill check graphs/                   check all graphs of a folder
  graphmill top                             watch the server on this machine

`graphmill COMMAND --help` explains a command.";

/// Commands by purpose, as the help lists them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Serve", &["serve", "chat"]),
    ("Get models", &["pull", "list", "rm", "quantize"]),
    (
        "Inspect",
        &["top", "why", "tap", "record", "replay", "diff"],
    ),
    (
        "Write graphs",
        &[
            "check",
            "fmt",
            "explain",
            "run",
            "test",
            "calculators",
            "describe",
        ],
    ),
    ("Set up", &["pack", "key", "schema", "completions"]),
];

#[derive(Debug, Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, for as long as the program runs"
)]
enum Verb {
    /// Serve a model, a graph, or the graphs of a config.json.
    Serve(serve::ServeArguments),
    /// Chat with a model in the terminal, or through a pipe.
    Chat(chat::ChatArguments),
    /// Download a model from Hugging Face.
    Pull(models::Pull),
    /// List the downloaded models: files and sizes.
    List(models::List),
    /// Remove a downloaded model, or some of its files.
    Rm(models::Remove),
    /// Quantize the weights of a model file.
    Quantize(quantize::QuantizeArguments),
    /// Watch the activity of a server: its engines and its graphs.
    Top(top::TopArguments),
    /// Show what the open sessions of a server wait for.
    Why(why::WhyArguments),
    /// Print the packets of streams as they pass through a graph.
    Tap(tap::TapArguments),
    /// Record the next sessions of a graph to files.
    Record(record::RecordArguments),
    /// Replay a recorded session with its recorded tokens: exit status 1 if the packets differ.
    Replay(replay::ReplayArguments),
    /// Compare two recordings: exit status 1 if they differ.
    Diff(diff::DiffArguments),
    /// Check graph files or a config.json without serving them: exit status 1 if anything is wrong.
    Check(check::CheckArguments),
    /// Show a graph as it runs: subgraphs expanded, types of streams, when and where nodes run.
    Explain(explain::ExplainArguments),
    /// Format graph files in the standard form.
    Fmt(fmt::FmtArguments),
    /// Run a graph without a server: packets in and out as lines of JSON.
    Run(run::RunArguments),
    /// Run tests of graphs: packets in, expected packets out.
    Test(test::TestArguments),
    /// Print the JSON schema of config.json, for editors.
    Schema,
    /// List the calculators that graphs can use.
    Calculators(calculators::CalculatorsArguments),
    /// Describe a calculator: ports, types, options, when it runs.
    Describe(describe::DescribeArguments),
    /// Pack a folder with a graph and its models into one file that can be served.
    Pack(archive::pack::PackArguments),
    /// Generate an API key and its entry for the key file.
    Key(key::KeyArguments),
    /// Print a shell's completion script.
    Completions(completions::CompletionsArguments),
}

/// Output format of a command.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// Text for people to read.
    Text,
    /// JSON with all details, for programs.
    Json,
}

/// A flag that takes `on` or `off`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Trials of model formats other than llama.cpp's.
#[cfg(feature = "onnx")]
const FORMATS: &[FileTrial] = graphmill_calculators::onnx::TRIALS;
#[cfg(not(feature = "onnx"))]
const FORMATS: &[FileTrial] = &[];

/// Runs the command line of this process, as a server binary does. Must be called first in `main`,
/// because the server may start this program again to try loading a model.
pub fn main() -> ExitCode {
    if !processor::suffices() {
        return ExitCode::FAILURE;
    }
    #[cfg(feature = "onnxruntime")]
    if let Some(library) = variable(LIBRARY_VARIABLE) {
        use_library(library.into());
    }
    // The process may be one that tries loading a model, started without arguments.
    trial::answer(Knowledge {
        formats: FORMATS,
        try_template: ChatTemplate::attempt,
    });
    let status = report::exit_code(run_command());
    log::flush();
    ending::leave(status)
}

/// Parses the command line and runs its command.
fn run_command() -> Result<ExitCode, String> {
    let mut arguments = spelling::normalized(env::args_os());
    server::add_default(&mut arguments);
    let expanded = serve::properties::expand(&mut arguments)?;
    let parsed = |bare| {
        let mut command = command(bare);
        let matches = command.try_get_matches_from_mut(&arguments);
        matches.unwrap_or_else(|error| mistakes::leave(&error, &command, &arguments, &expanded))
    };
    let mut matches = parsed(false);
    if serve::environment::counts_bare(&matches) {
        matches = parsed(true);
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if matches!(
        cli.verb,
        Verb::Serve(_)
            | Verb::Chat(_)
            | Verb::Run(_)
            | Verb::Test(_)
            | Verb::Replay(_)
            | Verb::Describe(_)
    ) {
        openmp::limit();
        graphmill_llm::prepare_process();
    }
    if matches!(
        cli.verb,
        Verb::Run(_) | Verb::Test(_) | Verb::Replay(_) | Verb::Describe(_)
    ) {
        trial::begin();
    }
    match &cli.verb {
        Verb::Serve(arguments) => {
            let given = matches.subcommand_matches("serve");
            serve::run(
                arguments,
                given.expect("clap has found the verb"),
                &expanded.warnings,
            )
        }
        Verb::Chat(arguments) => chat::run(arguments),
        Verb::Pull(arguments) => models::pull(arguments),
        Verb::List(arguments) => models::list(arguments),
        Verb::Rm(arguments) => models::remove(arguments),
        Verb::Quantize(arguments) => quantize::run(arguments),
        Verb::Top(arguments) => top::run(arguments),
        Verb::Why(arguments) => why::run(arguments),
        Verb::Tap(arguments) => tap::run(arguments),
        Verb::Record(arguments) => record::run(arguments),
        Verb::Replay(arguments) => replay::run(arguments),
        Verb::Diff(arguments) => diff::run(arguments),
        Verb::Check(arguments) => check::run(arguments),
        Verb::Explain(arguments) => explain::run(arguments),
        Verb::Fmt(arguments) => fmt::run(arguments),
        Verb::Run(arguments) => run::run(arguments),
        Verb::Test(arguments) => test::run(arguments),
        Verb::Schema => report::print(&format!("{:#}\n", config::json_schema())),
        Verb::Calculators(arguments) => calculators::run(arguments),
        Verb::Describe(arguments) => describe::run(arguments),
        Verb::Pack(arguments) => archive::pack::run(arguments),
        Verb::Key(arguments) => key::run(arguments),
        Verb::Completions(arguments) => completions::run(arguments),
    }
}

/// Returns the value of an environment variable that is not empty.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the folder that a variable names, or else a folder in the user's home.
fn user_folder(name: &str, in_home: &str) -> Option<PathBuf> {
    let named = variable(name).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(in_home)))
}

/// Creates a runtime with a thread for each CPU.
fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start threads: {error}"))
}

/// Builds the command line with the environment variables of its flags. If `bare`, variables
/// without a prefix are read, too.
fn command(bare: bool) -> Command {
    let command = Cli::command()
        .mut_subcommand("serve", |serve| serve::environment::read(serve, bare))
        // `-1` is read as a wrong number, not as an unknown flag.
        .mut_subcommands(|verb| {
            verb.mut_args(|argument| {
                let is_flag = argument.get_long().is_some() && argument.get_action().takes_values();
                argument.allow_negative_numbers(is_flag)
            })
        });
    let template = template(&command);
    command.help_template(template)
}

/// Formats the overview of all commands by group.
fn template(command: &Command) -> String {
    let header = command.get_styles().get_header();
    let line = |verb: &&str| {
        let found = command.find_subcommand(verb);
        let about = found.and_then(Command::get_about).map(ToString::to_string);
        format!("  {verb:<12} {}\n", about.unwrap_or_default())
    };
    let groups = GROUPS.iter().map(|(heading, verbs)| {
        let lines: String = verbs.iter().map(line).collect();
        format!("\n{header}{heading}:{header:#}\n{lines}")
    });
    let groups: String = groups.collect();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    )
}

#[cfg(test)]
mod tests {
    use super::{spelling::normalized, *};

    fn parsed(arguments: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(normalized(arguments.split(' ').map(OsString::from)))
    }

    #[test]
    fn dashes_and_underscores_are_the_same_in_flags_and_untouched_in_values() {
        let arguments = [
            "graphmill",
            "serve",
            "--config-path=a-b.json",
            "--rest-port",
            "80",
            "--",
            "--x-y",
        ];
        assert_eq!(
            normalized(arguments.into_iter().map(OsString::from)),
            [
                "graphmill",
                "serve",
                "--config_path=a-b.json",
                "--rest_port",
                "80",
                "--",
                "--x-y"
            ]
        );
        assert!(
            parsed("graphmill serve --config-path a.json --rest-port 8000 --rest-bind-address ::1")
                .is_ok()
        );
        assert!(parsed("graphmill serve --config_path a.json --rest_port 8000 --rest_bind_address localhost").is_ok());
    }

    #[test]
    fn the_published_command_line_needs_no_verb() {
        let cli = parsed("graphmill --rest_port 8000 --port 9000 --config_path config.json")
            .expect("valid");
        let Verb::Serve(arguments) = cli.verb else {
            panic!("not serve")
        };
        assert_eq!((arguments.rest_port, arguments.port), (8000, Some(9000)));
    }

    #[test]
    fn the_command_line_is_consistent() {
        command(true).debug_assert();
        let cli = Cli::command();
        let mut verbs: Vec<&str> = cli.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, verbs)| *verbs)
            .copied()
            .collect();
        verbs.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, verbs);
    }
}
