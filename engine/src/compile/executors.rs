//! Executors: the place of each node.
//!
//! A node runs in its session's own task unless the graph file or its contract names an executor.
//! The graph's default executor serves nodes whose contract names an executor: its threads replace
//! the shared executor `cpu`.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use graphmill_grammar::{Diagnostic, Span, diag::has_errors};

use crate::{
    codes::{calculators, executors},
    contract::Run,
    executor::ThreadPool,
    executors::Executors,
    lanes::{Junction, Lane},
    plan::NodePlace,
};

use super::{
    draft::{Draft, DraftNode},
    executor_declarations::{
        DEFAULT, ExecutorDeclaration, declaration, declarations, is_reserved, noun, reserved,
    },
};

pub(super) fn resolve(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    let declared = declarations(draft, &mut found);
    let mut numbers: HashMap<String, u16> = HashMap::new();
    let mut used: HashSet<String> = HashSet::new();
    for at in 0..draft.nodes.len() {
        let Some((wanted, place)) = wanted(&draft.nodes[at], &declared, &mut found) else {
            continue;
        };
        used.insert(wanted.clone());
        if let Some(&number) = numbers.get(&wanted) {
            draft.nodes[at].place = NodePlace::Executor(number);
            continue;
        }
        let executor = match declared.get(&wanted) {
            Some(ExecutorDeclaration::Inline | ExecutorDeclaration::Wrong) => continue,
            Some(ExecutorDeclaration::Provided) => draft.environment.executors.lane(&wanted),
            Some(pool) => lane(&wanted, pool),
            None => {
                let known = draft.environment.executors.lane(&wanted);
                if known.is_none() {
                    found.push(unknown(draft, &draft.nodes[at], &wanted, place, &declared));
                }
                known
            }
        };
        // Async calls run in the session, so only the existence of the executor was checked.
        if let Some(executor) = executor
            && !draft.nodes[at].is_async
        {
            draft.executors.push((wanted.clone(), executor));
            let number = draft.executors.len() as u16 - 1;
            numbers.insert(wanted, number);
            draft.nodes[at].place = NodePlace::Executor(number);
        }
    }
    // After a mistake, an executor may only seem to be unused.
    if !draft.incomplete && !has_errors(&draft.diagnostics) && !has_errors(&found) {
        unused(&declared, &used, &mut found);
    }
    draft.diagnostics.extend(found);
}

/// Returns the executor of a node, with the location for diagnostics.
fn wanted(
    node: &DraftNode,
    declared: &HashMap<String, ExecutorDeclaration>,
    found: &mut Vec<Diagnostic>,
) -> Option<(String, Span)> {
    if let Some(name) = &node.config.executor
        && !name.is_empty()
    {
        if is_reserved(name) {
            let diagnostic = reserved(name, name.span);
            found.push(diagnostic.hint("leave out `executor` to use the default one"));
            return None;
        }
        return Some((name.value.clone(), name.span));
    }
    let Some(Run::Offload(name)) = node.contract.run else {
        return None;
    };
    let name = if declared.contains_key(DEFAULT) {
        DEFAULT
    } else {
        name
    };
    Some((name.to_owned(), node.config.place()))
}

fn lane(name: &str, pool: &ExecutorDeclaration) -> Option<Lane> {
    let ExecutorDeclaration::Pool {
        prefix,
        threads,
        stack_size,
        ..
    } = pool
    else {
        return None;
    };
    let pool = ThreadPool::with_stack(prefix, Some(*threads), *stack_size);
    Some(Junction::new(Arc::new(pool)).lane(name))
}

fn unknown(
    draft: &Draft<'_>,
    node: &DraftNode,
    wanted: &str,
    span: Span,
    declared: &HashMap<String, ExecutorDeclaration>,
) -> Diagnostic {
    let message = format!("unknown executor `{wanted}`");
    let diagnostic = Diagnostic::error(&executors::UNKNOWN_EXECUTOR, span, message);
    let mut names: Vec<&str> = declared.keys().map(String::as_str).collect();
    names.push(Executors::CPU);
    names.sort_unstable();
    let is_written = node.config.executor.is_some() && node.is_top_level();
    match draft.nearest(wanted, names.into_iter()) {
        Some(near) => {
            let edit = is_written.then(|| (span, format!("\"{near}\"")));
            diagnostic.did_you_mean(near, edit)
        }
        None if draft.graph.span.is_none() => diagnostic.hint(format!(
            "declare it with `{}`, or use `{}`",
            declaration(wanted),
            Executors::CPU
        )),
        None => diagnostic.fix(
            format!("declare it in the graph, or use `{}`", Executors::CPU),
            draft.graph.span.at_start(),
            format!("{}\n", declaration(wanted)),
        ),
    }
}

/// Reports pools that no node runs on.
fn unused(
    declared: &HashMap<String, ExecutorDeclaration>,
    used: &HashSet<String>,
    found: &mut Vec<Diagnostic>,
) {
    let mut declared: Vec<_> = declared.iter().collect();
    declared.sort_unstable_by_key(|(name, _)| name.as_str());
    for (name, declared) in declared {
        if let ExecutorDeclaration::Pool { place, .. } = declared
            && !used.contains(name)
        {
            let message = format!("no node runs on {}", noun(name));
            let diagnostic = Diagnostic::warning(&calculators::NO_EFFECT, *place, message);
            found.push(if name == DEFAULT {
                diagnostic.hint("only nodes with long computations run on it; the others run in the session's own task")
            } else {
                diagnostic.hint(format!("name it in a node: `executor: \"{name}\"`"))
            });
        }
    }
}
