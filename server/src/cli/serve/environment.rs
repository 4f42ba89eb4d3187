//! Environment variables for the flags of `serve`: `GRAPHMILL_REST_PORT` sets `--rest_port`, unless
//! the command line has that flag.

use std::env;

use clap::{Arg, ArgAction, ArgMatches, Command, builder::BoolishValueParser, parser::ValueSource};
use graphmill_grammar::suggest;

const PREFIX: &str = "GRAPHMILL_";

/// Flags that make the command do something other than serve.
const OTHER_THINGS: [&str; 7] = [
    "help",
    "help_ovms",
    "emit_graph",
    "list_models",
    "add_to_config",
    "remove_from_config",
    "pull",
];

/// Variables that are read elsewhere in the program.
const OTHERS: [&str; 4] = [
    "GRAPHMILL_API_KEY",
    "GRAPHMILL_CPU_KERNELS",
    // Contains the flags of the packaged service unit.
    "GRAPHMILL_FLAGS",
    "GRAPHMILL_TRY_MODEL",
];

/// Arguments that name what is served.
const SOURCES: [&str; 6] = [
    "model",
    "config_path",
    "model_path",
    "source_model",
    "model_repository_path",
    "models_dir",
];

/// Variables that are also read without the prefix, if only `MODEL_PATH` names what is served. They
/// are the variables of TorchServe's LLM service. Otherwise they are ignored, because other
/// programs use such names, too.
const BARE: [&str; 7] = [
    "MODEL_PATH",
    "MODEL_NAME",
    "DEVICE_MAP",
    "DTYPE",
    "QUANTIZATION",
    "MAX_INPUT_TOKENS",
    "MAX_NEW_TOKENS",
];

/// Returns true if `given` names what is served only by `MODEL_PATH`, so that variables without a
/// prefix are read.
pub(in crate::cli) fn counts_bare(given: &ArgMatches) -> bool {
    let is_named = |given: &ArgMatches| SOURCES.iter().any(|id| given.contains_id(id));
    let serve = given.subcommand_matches("serve");
    serve.is_some_and(|given| !is_named(given)) && is_set(BARE[0])
}

/// Lets the flags of a command take their values from the environment; also from variables without
/// a prefix if `bare`.
pub(in crate::cli) fn read(command: Command, bare: bool) -> Command {
    command.mut_args(|argument| {
        let Some(variable) = variable(&argument) else {
            return argument;
        };
        let short = &variable[PREFIX.len()..];
        let variable = if is_set(&variable) {
            variable
        } else if bare && BARE.contains(&short) && is_set(short) {
            short.to_owned()
        } else {
            return argument;
        };
        let argument = match argument.get_action() {
            ArgAction::SetTrue => argument.value_parser(BoolishValueParser::new()),
            _ => argument,
        };
        argument.env(variable).hide_env(true)
    })
}

/// Returns true if a variable has a value. Those that Kubernetes sets in every container for services
/// called `graphmill` or `graphmill-management` do not count: `GRAPHMILL_PORT=tcp://10.0.0.1:8000`.
fn is_set(variable: &str) -> bool {
    let value = env::var_os(variable).unwrap_or_default();
    let is_link = variable.ends_with("_PORT") && value.to_string_lossy().contains("://");
    !value.is_empty() && !is_link
}

/// Returns true if a variable is another one that Kubernetes sets for such a service:
/// `GRAPHMILL_SERVICE_HOST`, `GRAPHMILL_PORT_8000_TCP`.
fn is_of_kubernetes(variable: &str) -> bool {
    let mut parts = ["_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_UDP"].into_iter();
    parts.any(|part| variable.contains(part))
}

fn variable(argument: &Arg) -> Option<String> {
    let name = argument.get_long()?;
    let is_flag = !OTHER_THINGS.contains(&name);
    let variable = is_flag.then(|| format!("{PREFIX}{}", name.to_ascii_uppercase()));
    variable.filter(|variable| !OTHERS.contains(&variable.as_str()))
}

/// Warns of variables of this program without effect. `command` is the whole command line, and
/// `given` the arguments of `serve`.
pub(super) fn warn(command: &Command, given: &ArgMatches) {
    let serve = command.find_subcommand("serve").into_iter();
    let flags: Vec<&Arg> = serve.flat_map(Command::get_arguments).collect();
    let known: Vec<String> = flags.iter().filter_map(|flag| variable(flag)).collect();
    let visible = flags.iter().filter(|flag| !flag.is_hide_set());
    // Names of a single word are used by many other programs.
    let bare = visible.filter_map(|flag| Some(flag.get_long()?.to_ascii_uppercase()));
    let bare: Vec<String> = bare.filter(|name| name.contains('_')).collect();
    for (name, value) in env::vars_os() {
        let Some(name) = name.to_str().filter(|_| !value.is_empty()) else {
            continue;
        };
        let why = if let Some(wanted) = name.strip_prefix(PREFIX) {
            if known.iter().any(|flag| flag == name) {
                overruled(wanted, given)
            } else if OTHERS.contains(&name) || is_of_kubernetes(name) {
                None
            } else {
                Some(unknown(wanted, &known))
            }
        } else {
            let is_flag = bare.iter().any(|flag| flag == name);
            let is_used = BARE.contains(&name)
                && given.value_source("model_path") == Some(ValueSource::EnvVariable)
                && !is_set("GRAPHMILL_MODEL_PATH");
            (is_flag && !is_used).then(|| format!("did you mean `{PREFIX}{name}`?"))
        };
        if let Some(why) = why {
            tracing::warn!("the variable `{name}` has no effect: {why}");
        }
    }
}

/// Explains that a variable belongs to no flag, with the nearest name.
fn unknown(wanted: &str, known: &[String]) -> String {
    let flag = wanted.to_ascii_lowercase();
    if OTHER_THINGS.contains(&flag.as_str()) {
        return format!("`--{flag}` is read only from the command line");
    }
    // The common prefix would make all names similar.
    let flags = known.iter().map(|name| &name[PREFIX.len()..]);
    match suggest::nearest(wanted, flags) {
        Some(near) => format!("did you mean `{PREFIX}{near}`?"),
        None => format!("`graphmill serve` has no flag `--{flag}`"),
    }
}

/// Returns the reason why the command line overrides a variable; `None` if the variable counts.
fn overruled(wanted: &str, given: &ArgMatches) -> Option<String> {
    let is_from = |id: &str, source| given.value_source(id) == Some(source);
    let flag = wanted.to_ascii_lowercase();
    let is_source = SOURCES.contains(&flag.as_str()) && is_from(&flag, ValueSource::EnvVariable);
    let mut sources = SOURCES.into_iter();
    let named = sources.any(|id| is_from(id, ValueSource::CommandLine));
    (is_source && named).then(|| "the command line names what to serve".to_owned())
}
