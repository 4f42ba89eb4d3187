//! Flags of `serve` as variables of the environment: `GRAPHMILL_REST_PORT` is `--rest_port`, unless
//! the command line has that flag.

use std::{env, ffi::OsStr};

use clap::{Arg, ArgAction, Command, builder::BoolishValueParser};
use graphmill_grammar::suggest;

const PREFIX: &str = "GRAPHMILL_";

/// Flags that make the command do something else than serve.
const OTHER_THINGS: [&str; 5] = [
    "help",
    "emit_graph",
    "list_models",
    "add_to_config",
    "remove_from_config",
];

/// Variables that are read elsewhere.
const OTHERS: [&str; 3] = [
    "GRAPHMILL_API_KEY",
    "GRAPHMILL_CPU_KERNELS",
    "GRAPHMILL_TRY_MODEL",
];

/// Has the flags of a command take their values from the environment, too.
pub(in crate::cli) fn read(command: Command) -> Command {
    command.mut_args(|argument| {
        let Some(variable) = variable(&argument) else {
            return argument;
        };
        if !env::var_os(&variable).is_some_and(|value| means_something(&variable, &value)) {
            return argument;
        }
        let argument = match argument.get_action() {
            ArgAction::SetTrue => argument.value_parser(BoolishValueParser::new()),
            _ => argument,
        };
        argument.env(variable).hide_env(true)
    })
}

/// Not so an empty variable, nor those that Kubernetes gives every container for services that are
/// called `graphmill` or `graphmill-management`: `GRAPHMILL_PORT=tcp://10.0.0.1:8000`.
fn means_something(variable: &str, value: &OsStr) -> bool {
    let is_link = variable.ends_with("_PORT") && value.to_string_lossy().contains("://");
    !value.is_empty() && !is_link
}

/// Whether a variable is one of the others that Kubernetes gives for such a service:
/// `GRAPHMILL_SERVICE_HOST`, `GRAPHMILL_PORT_8000_TCP`.
fn is_of_kubernetes(variable: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_UDP"]
        .iter()
        .any(|part| variable.contains(part))
}

fn variable(argument: &Arg) -> Option<String> {
    let name = argument.get_long()?;
    let is_flag = !OTHER_THINGS.contains(&name);
    is_flag.then(|| format!("{PREFIX}{}", name.to_ascii_uppercase()))
}

/// Warns of variables that are spelled nearly as those of a flag of `serve`; `command` is the whole
/// command line.
pub(super) fn warn_of_unknown(command: &Command) {
    let serve = command.find_subcommand("serve").into_iter();
    let arguments = serve.flat_map(Command::get_arguments);
    let known: Vec<String> = arguments.filter_map(variable).collect();
    let given = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in given.filter(|name| name.starts_with(PREFIX)) {
        if known.contains(&name) || OTHERS.contains(&name.as_str()) || is_of_kubernetes(&name) {
            continue;
        }
        // What all begin with makes none of them near.
        let wanted = &name[PREFIX.len()..];
        let flags = known.iter().map(|name| &name[PREFIX.len()..]);
        if let Some(near) = suggest::nearest(wanted, flags).map(|near| format!("{PREFIX}{near}")) {
            tracing::warn!("the variable `{name}` has no effect: did you mean `{near}`?");
        }
    }
}
