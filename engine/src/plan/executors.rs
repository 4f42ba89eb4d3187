//! Executors: the pools that the graph declares, and where each node runs.

use std::{collections::HashMap, sync::Arc};

use graphmill_grammar::{Diagnostic, de, graph::ExecutorConfig, suggest};
use serde::Deserialize;

use crate::{
    calculator::Run,
    codes::executors,
    executor::{Executor, Executors, ThreadPool},
};

use super::{Place, draft::Draft};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ThreadPoolExecutorOptions {
    num_threads: Option<i32>,
    #[serde(rename = "stack_size")]
    _stack_size: Option<i32>,
    #[serde(rename = "nice_priority_level")]
    _nice_priority_level: Option<i32>,
    #[serde(rename = "require_processor_performance")]
    _require_processor_performance: Option<String>,
    thread_name_prefix: Option<String>,
}

pub(super) fn resolve(draft: &mut Draft<'_>) {
    let declared = declared(draft);
    let mut numbers: HashMap<String, u16> = HashMap::new();
    for at in 0..draft.nodes.len() {
        let node = &draft.nodes[at];
        let written = node
            .config
            .executor
            .as_ref()
            .filter(|name| !name.is_empty());
        let wanted = match (written, node.contract.run) {
            (Some(name), _) => name.value.clone(),
            (None, Some(Run::Offload(name))) => name.to_owned(),
            (None, Some(Run::Inline) | None) => continue,
        };
        let number = if let Some(&number) = numbers.get(&wanted) {
            number
        } else {
            let is_declared = declared.contains_key(&wanted);
            let found = declared
                .get(&wanted)
                .cloned()
                .unwrap_or_else(|| draft.environment.executors.get(&wanted));
            let Some(executor) = found else {
                if !is_declared {
                    let span = written.map_or(node.config.place(), |name| name.span);
                    let diagnostic = unknown(&wanted, span, &declared);
                    draft.report(diagnostic);
                }
                continue;
            };
            draft.executors.push(executor);
            let number = draft.executors.len() as u16 - 1;
            numbers.insert(wanted, number);
            number
        };
        draft.nodes[at].place = Place::Executor(number);
    }
}

/// The pools by name; none for one that is declared wrongly, which has been reported.
type Declared = HashMap<String, Option<Arc<dyn Executor>>>;

fn unknown(wanted: &str, span: graphmill_grammar::Span, declared: &Declared) -> Diagnostic {
    let diagnostic = Diagnostic::error(
        &executors::UNKNOWN_EXECUTOR,
        span,
        format!("unknown executor `{wanted}`"),
    );
    let names = declared.keys().map(String::as_str).chain([Executors::CPU]);
    match suggest::nearest(wanted, names) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic.hint(format!(
            "declare it with `executor {{ name: \"{wanted}\" type: \"ThreadPoolExecutor\" }}`, or use `{}`",
            Executors::CPU
        )),
    }
}

fn declared(draft: &mut Draft<'_>) -> Declared {
    let mut declared = Declared::new();
    let mut spans = HashMap::new();
    let mut found = Vec::new();
    if let Some(threads) = &draft.graph.num_threads {
        spans.insert(String::new(), threads.span);
    }
    for config in &draft.graph.executor {
        let name = config.name.as_ref().map_or("", |name| name.as_str());
        let place = config.name.as_ref().map_or(config.head, |name| name.span);
        if matches!(name, "default" | "gpu") || name.starts_with("__") {
            let message = format!("`{name}` is a reserved executor name");
            found.push(Diagnostic::error(
                &executors::RESERVED_EXECUTOR,
                place,
                message,
            ));
        }
        if let Some(first) = spans.insert(name.to_owned(), place) {
            let message = match name {
                "" => "the default executor is declared twice".to_owned(),
                name => format!("executor `{name}` is declared twice"),
            };
            found.push(
                Diagnostic::error(&executors::DUPLICATE_EXECUTOR, place, message)
                    .also(first, "first declared here"),
            );
            continue;
        }
        let pool = pool(config, name, &mut found);
        // Nodes of the default executor run in the session's own task, so its pool is only checked.
        if !name.is_empty() {
            declared.insert(name.to_owned(), pool);
        }
    }
    draft.diagnostics.extend(found);
    declared
}

fn pool(
    config: &ExecutorConfig,
    name: &str,
    found: &mut Vec<Diagnostic>,
) -> Option<Arc<dyn Executor>> {
    let kind = config.r#type.as_ref().map_or("", |kind| kind.as_str());
    let place = config.r#type.as_ref().map_or(config.head, |kind| kind.span);
    match kind {
        "" | "ThreadPoolExecutor" => {}
        "ApplicationThreadExecutor" if name.is_empty() => return None,
        _ => {
            let diagnostic = Diagnostic::error(
                &executors::UNKNOWN_EXECUTOR_TYPE,
                place,
                format!("unknown executor type `{kind}`"),
            );
            found.push(diagnostic.hint("use `ThreadPoolExecutor`"));
            return None;
        }
    }
    let messages = config
        .options
        .as_ref()
        .map_or(&[][..], |options| &options.messages);
    let mut options = ThreadPoolExecutorOptions::default();
    if let Some(message) = messages
        .iter()
        .find(|message| message.short_name() == "ThreadPoolExecutorOptions")
    {
        match de::from_options(message) {
            Ok(read) => options = read,
            Err(diagnostics) => {
                found.extend(diagnostics);
                return None;
            }
        }
    }
    let threads = match options.num_threads {
        Some(threads) if threads < 1 => {
            let message = format!("a pool of {threads} threads runs nothing");
            found.push(
                Diagnostic::error(&executors::BAD_THREADS, place, message)
                    .hint("give `num_threads` a number above 0, or leave it out"),
            );
            return None;
        }
        threads => threads.map(|threads| threads as usize),
    };
    if name.is_empty() {
        return None;
    }
    match ThreadPool::new(
        options.thread_name_prefix.as_deref().unwrap_or(name),
        threads,
    ) {
        Ok(pool) => Some(Arc::new(pool)),
        Err(error) => {
            let message = format!("cannot start the threads of executor `{name}`: {error}");
            found.push(Diagnostic::error(&executors::BAD_THREADS, place, message));
            None
        }
    }
}
