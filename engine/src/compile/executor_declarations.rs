//! Executors that a graph declares: their options, limits and mistakes.

use std::collections::HashMap;

use graphmill_grammar::{Diagnostic, OptionsMessage, Span, graph::ExecutorConfig};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    codes::{calculators, executors},
    executors::Executors,
    registry::read_options,
};

use super::draft::{Draft, ports};

/// Name of the default executor.
pub(super) const DEFAULT: &str = "";
/// Type of the executors that this engine makes.
const THREAD_POOL: &str = "ThreadPoolExecutor";
/// Maximum number of threads in all pools of a graph: more than most machines have cores.
const MAX_THREADS: i32 = 256;
/// Maximum size of a thread's stack, in bytes.
const MAX_STACK_BYTES: i32 = 64 << 20;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ThreadPoolExecutorOptions {
    #[schemars(range(min = -1, max = MAX_THREADS))]
    num_threads: Option<i32>,
    #[schemars(range(min = 0, max = MAX_STACK_BYTES))]
    stack_size: Option<i32>,
    #[serde(rename = "nice_priority_level")]
    _nice_priority_level: Option<i32>,
    #[serde(rename = "require_processor_performance")]
    _require_processor_performance: Option<Performance>,
    thread_name_prefix: Option<String>,
}

/// Kind of processors requested for the threads; has no effect.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Performance {
    Normal,
    Low,
    High,
}

/// An executor of the graph.
pub(super) enum ExecutorDeclaration {
    /// A pool whose threads start when the first node needs them.
    Pool {
        /// Location of the declaration, for diagnostics.
        place: Span,
        count: Span,
        prefix: String,
        threads: usize,
        stack_size: usize,
    },
    /// An executor that the surrounding program provides.
    Provided,
    /// The session's own task instead of a pool.
    Inline,
    /// A wrong declaration, which has been reported.
    Wrong,
}

/// Reads the executors that the graph declares, by name.
pub(super) fn declarations(
    draft: &Draft<'_>,
    found: &mut Vec<Diagnostic>,
) -> HashMap<String, ExecutorDeclaration> {
    let mut declared = HashMap::new();
    let mut spans: HashMap<String, Span> = HashMap::new();
    if let Some(threads) = draft.graph.num_threads.filter(|n| n.value != 0) {
        spans.insert(DEFAULT.to_owned(), threads.span);
        match threads.value {
            -1 => {}
            1.. => {
                let pool = ExecutorDeclaration::Pool {
                    place: threads.span,
                    count: threads.span,
                    prefix: "graph".to_owned(),
                    threads: threads.value as usize,
                    stack_size: 0,
                };
                declared.insert(DEFAULT.to_owned(), pool);
            }
            _ => {
                found.push(bad_threads(threads.value, threads.span));
                declared.insert(DEFAULT.to_owned(), ExecutorDeclaration::Wrong);
            }
        }
    }
    for config in &draft.graph.executor {
        let name = config.name.as_ref().map_or(DEFAULT, |name| name.as_str());
        let place = config.name.as_ref().map_or(config.head, |name| name.span);
        if is_reserved(name) {
            found.push(reserved(name, place));
        }
        if let Some(first) = spans.insert(name.to_owned(), place) {
            let message = format!("{} is declared twice", noun(name));
            found.push(
                Diagnostic::error(&executors::DUPLICATE_EXECUTOR, place, message)
                    .also(first, "first declared here"),
            );
            continue;
        }
        let is_own = matches!(name, DEFAULT | Executors::CPU);
        let is_provided = !is_own && draft.environment.executors.get(name).is_some();
        let executor = self::declared(config, name, is_provided, found).unwrap_or_else(|wrong| {
            found.extend(wrong);
            Some(ExecutorDeclaration::Wrong)
        });
        declared.extend(executor.map(|executor| (name.to_owned(), executor)));
    }
    too_many_threads(&declared, found);
    declared
}

/// Reports the pool that exceeds the limit of threads per graph.
fn too_many_threads(declared: &HashMap<String, ExecutorDeclaration>, found: &mut Vec<Diagnostic>) {
    let mut pools: Vec<_> = declared
        .values()
        .filter_map(ExecutorDeclaration::size)
        .collect();
    pools.sort_unstable_by_key(|(count, _)| *count);
    let mut sum = 0;
    for (count, threads) in pools {
        sum += threads;
        if sum > MAX_THREADS as usize {
            let message = format!("the pools of the graph have {sum} threads");
            let diagnostic = Diagnostic::error(&executors::BAD_THREADS, count, message);
            found.push(diagnostic.label(format!("expected at most {MAX_THREADS} together")));
            return;
        }
    }
}

impl ExecutorDeclaration {
    /// Returns the number of a pool's threads, with its location.
    fn size(&self) -> Option<(Span, usize)> {
        match self {
            Self::Pool { count, threads, .. } => Some((*count, *threads)),
            _ => None,
        }
    }
}

/// Reads one declaration and reports warnings. Returns `None` if the default executor stays as it
/// is.
fn declared(
    config: &ExecutorConfig,
    name: &str,
    is_provided: bool,
    found: &mut Vec<Diagnostic>,
) -> Result<Option<ExecutorDeclaration>, Vec<Diagnostic>> {
    let kind = config.r#type.as_ref().map_or("", |kind| kind.as_str());
    let place = config.r#type.as_ref().map_or(config.head, |kind| kind.span);
    match (kind, is_provided) {
        ("", true) => return Ok(Some(ExecutorDeclaration::Provided)),
        ("", false) if name == DEFAULT => {}
        ("", false) => {
            let message = format!("executor `{name}` has no `type`, and the program provides none");
            let code = &executors::UNKNOWN_EXECUTOR_TYPE;
            let advice = format!("declare a pool: `{}`", declaration(name));
            return Err(vec![
                Diagnostic::error(code, config.head, message).hint(advice),
            ]);
        }
        (_, true) => {
            let message = format!("executor `{name}` has a `type`, but the program provides it");
            return Err(vec![
                Diagnostic::error(&executors::DUPLICATE_EXECUTOR, place, message)
                    .hint("leave out the `type`, or give it another name"),
            ]);
        }
        (THREAD_POOL, false) => {}
        ("ApplicationThreadExecutor", false) if name == DEFAULT => {
            return Ok(Some(ExecutorDeclaration::Inline));
        }
        (_, false) => {
            let message = format!("unknown executor type `{kind}`");
            let (advice, known) = (format!("use `{THREAD_POOL}`"), format!("\"{THREAD_POOL}\""));
            return Err(vec![
                Diagnostic::error(&executors::UNKNOWN_EXECUTOR_TYPE, place, message)
                    .fix(advice, place, known),
            ]);
        }
    }
    let options = options(config, found)?;
    match options.num_threads {
        // An untyped default executor leaves the choice to the engine.
        None | Some(0 | -1) if kind.is_empty() => Ok(None),
        None => {
            let message = format!("{} has no number of threads", noun(name));
            Err(vec![
                Diagnostic::error(&executors::BAD_THREADS, place, message)
                    .hint("add `options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } }`"),
            ])
        }
        Some(threads) if threads < 1 => {
            Err(vec![bad_threads(threads, count(config).unwrap_or(place))])
        }
        Some(threads) => Ok(Some(ExecutorDeclaration::Pool {
            place,
            count: count(config).unwrap_or(place),
            prefix: options.thread_name_prefix.unwrap_or_else(|| match name {
                DEFAULT => "graph".to_owned(),
                name => name.to_owned(),
            }),
            threads: threads as usize,
            stack_size: usize::try_from(options.stack_size.unwrap_or(0)).unwrap_or(0),
        })),
    }
}

/// Returns the location of an executor's number of threads.
fn count(config: &ExecutorConfig) -> Option<Span> {
    let messages = &config.options.as_ref()?.messages;
    let mut bodies = messages.iter().map(|message| &message.body);
    bodies.find_map(|body| ports::value_span(body, "num_threads"))
}

fn bad_threads(threads: i32, place: Span) -> Diagnostic {
    let message = format!("a pool has at least one thread, not {threads}");
    Diagnostic::error(&executors::BAD_THREADS, place, message)
        .hint("give `num_threads` a number above 0")
}

fn options(
    config: &ExecutorConfig,
    found: &mut Vec<Diagnostic>,
) -> Result<ThreadPoolExecutorOptions, Vec<Diagnostic>> {
    let mut read = ThreadPoolExecutorOptions::default();
    for message in config.options.iter().flat_map(|options| &options.messages) {
        if message.short_name() != "ThreadPoolExecutorOptions" {
            let (place, given) = (message.name.span, message.type_name());
            let text = format!("an executor takes no options of type `{given}`");
            found.push(Diagnostic::warning(&calculators::NO_EFFECT, place, text));
            continue;
        }
        read = read_options(Some(message))?;
        without_effect(message, found);
    }
    Ok(read)
}

/// Reports options that have no effect on a thread pool.
fn without_effect(message: &OptionsMessage, found: &mut Vec<Diagnostic>) {
    for field in &message.body.fields {
        let name = field.name.as_plain().unwrap_or_default();
        if ["nice_priority_level", "require_processor_performance"].contains(&name) {
            let text = format!("`{name}` has no effect");
            found.push(
                Diagnostic::warning(&calculators::NO_EFFECT, field.name.span, text)
                    .label("threads run as the operating system schedules them"),
            );
        }
    }
}

/// Returns the executor in words.
pub(super) fn noun(name: &str) -> String {
    match name {
        DEFAULT => "the default executor".to_owned(),
        name => format!("executor `{name}`"),
    }
}

/// Returns `true` if graphs cannot use the name.
pub(super) fn is_reserved(name: &str) -> bool {
    matches!(name, "default" | "gpu") || name.starts_with("__")
}

/// Reports an executor name that graphs cannot use.
pub(super) fn reserved(name: &str, place: Span) -> Diagnostic {
    let message = format!("`{name}` is a reserved executor name");
    Diagnostic::error(&executors::RESERVED_EXECUTOR, place, message)
}

/// Returns a declaration as a graph file has it, for advice.
pub(super) fn declaration(name: &str) -> String {
    format!(
        "executor {{ name: \"{name}\" type: \"{THREAD_POOL}\" options {{ [mediapipe.ThreadPoolExecutorOptions.ext] {{ num_threads: 2 }} }} }}"
    )
}
