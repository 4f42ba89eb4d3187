//! `graphmill describe`: prints the details of a calculator, container or subgraph in the registry
//! of this binary, or the settings of a graph's engines.

mod example;
mod text;

use std::{io::ErrorKind, path::Path, process::ExitCode};

use clap::Args;
use graphmill_calculators::llm::LanguageModel;
#[cfg(feature = "onnx")]
use graphmill_calculators::onnx::OnnxModel;
use graphmill_calculators::tensor::batch::Batcher;
use graphmill_engine::{Environment, Plan, Registry};
use graphmill_grammar::suggest;
use serde_json::{Value, json};

use super::{ReportFormat, report};
use crate::{catalog, config::subgraphs::NamedSubgraphs, servable::compile};
use text::{calculator_text, subgraph_text};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DescribeArguments {
    /// Name of a calculator or subgraph, or a graph file.
    ///
    /// The models of a graph file are loaded to describe the settings of their engines, their
    /// tensors and their batching.
    name: String,
    /// Output format: `text` for people, `json` for programs.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

pub(super) fn run(arguments: &DescribeArguments) -> Result<ExitCode, String> {
    let name = &arguments.name;
    let path = Path::new(name);
    if path.extension().is_some_and(|end| end == "pbtxt") {
        return describe_engines(path, arguments.format);
    }
    let registry = Registry::global();
    if let Some(text) = described(&registry, name, arguments.format) {
        return report::print(&text);
    }
    if let Some(why) = no_graph(path) {
        return Err(why);
    }
    match near_names(&registry, name).as_slice() {
        [near] => {
            report::note(&format!(
                "no calculator is called `{name}`: this is `{near}`"
            ));
            report::print(&described(&registry, near, arguments.format).unwrap_or_default())
        }
        near => Err(unknown(name, near)),
    }
}

/// Describes the calculator or subgraph of this name; `None` for an unknown name.
fn described(registry: &Registry, name: &str, format: ReportFormat) -> Option<String> {
    let mut calculators = registry.describe().into_iter();
    if let Some(calculator) = calculators.find(|found| found.name == name) {
        return Some(match format {
            ReportFormat::Text => calculator_text(&calculator),
            ReportFormat::Json => format!("{:#}\n", json!(calculator)),
        });
    }
    let subgraph = registry.subgraphs().find(|found| *found.name == *name)?;
    Some(match format {
        ReportFormat::Text => subgraph_text(subgraph),
        ReportFormat::Json => format!("{:#}\n", catalog::subgraph_json(subgraph)),
    })
}

/// Loads the models of a graph and prints the settings of their engines.
fn describe_engines(graph: &Path, format: ReportFormat) -> Result<ExitCode, String> {
    let environment = Environment::new(Registry::global());
    let base = graph.parent().unwrap_or(Path::new(""));
    let compiled = compile(graph, base, &environment, &NamedSubgraphs::default())?;
    report::show(&compiled.sources, &compiled.diagnostics);
    let Some(plan) = compiled.plan else {
        return Ok(ExitCode::FAILURE);
    };
    let mut described = Vec::new();
    for model in plan.resources::<LanguageModel>() {
        let engine = model.engine();
        described.push((engine.info().to_string(), json!(engine.info())));
    }
    described.extend(onnx_models(&plan));
    for batcher in plan.resources::<Batcher>() {
        let info = batcher.info();
        described.push((info.to_string(), json!(info)));
    }
    let (blocks, values): (Vec<String>, Vec<Value>) = described.into_iter().unzip();
    let text = match format {
        ReportFormat::Text if blocks.is_empty() => "the graph has no model\n".to_owned(),
        ReportFormat::Text => blocks.join("\n\n") + "\n",
        ReportFormat::Json => format!("{:#}\n", json!(values)),
    };
    report::print(&text)
}

/// Describes the tensor models of a graph.
#[cfg(feature = "onnx")]
fn onnx_models(plan: &Plan) -> Vec<(String, Value)> {
    let models = plan.resources::<OnnxModel>();
    let described = models
        .iter()
        .map(|model| (model.to_string(), json!(**model)));
    described.collect()
}

#[cfg(not(feature = "onnx"))]
fn onnx_models(_: &Plan) -> Vec<(String, Value)> {
    Vec::new()
}

/// Returns the reason why a path is not a graph file; `None` if `path` does not look like a path.
fn no_graph(path: &Path) -> Option<String> {
    let name = path.display();
    let is_written_as_path = path.components().count() > 1
        || path.has_root()
        || path.extension().is_some_and(|end| end == "json");
    match path.metadata() {
        Ok(found) if found.is_dir() => Some(format!(
            "`{name}` is a directory: expected the name of a calculator, or a graph file"
        )),
        Ok(_) => Some(format!(
            "`{name}` is not a graph file: expected a name that ends with `.pbtxt`"
        )),
        Err(_) if !is_written_as_path => None,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("`{name}` does not exist"))
        }
        Err(error) => Some(format!("cannot read `{name}`: {error}")),
    }
}

fn unknown(name: &str, near: &[String]) -> String {
    let near: Vec<String> = near.iter().map(|near| format!("`{near}`")).collect();
    match near.as_slice() {
        [] => format!(
            "no calculator is called `{name}`; `graphmill calculators` lists them; your own nodes are known only to the program that contains them"
        ),
        [first @ .., last] => format!(
            "no calculator is called `{name}`; did you mean {} or {last}?",
            first.join(", ")
        ),
    }
}

/// Returns the names most similar to an unknown one, best first: names that differ by a typing
/// error, then names that contain it.
fn near_names(registry: &Registry, name: &str) -> Vec<String> {
    const MOST: usize = 5;
    /// Removes the suffix that nearly all names share, as it says nothing about similarity.
    fn stem(name: &str) -> &str {
        name.strip_suffix("Calculator").unwrap_or(name)
    }
    let described = registry.describe();
    let subgraphs = registry.subgraphs().map(|found| &*found.name);
    let calculators = described.iter().map(|found| found.name);
    let names: Vec<&str> = calculators.chain(subgraphs).collect();
    let wanted = stem(name);
    let begins_alike = |other: &&str| {
        let both = other.get(..3).zip(name.get(..3));
        both.is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    let slip = suggest::nearest(wanted, names.iter().map(|name| stem(name)));
    let slip = slip.or_else(|| {
        let alike = names.iter().copied().filter(begins_alike);
        suggest::nearest(name, alike).map(stem)
    });
    let part = wanted.to_lowercase();
    let has_it = |other: &&&str| part.len() > 1 && other.to_lowercase().contains(&part);
    let mut near: Vec<&str> = names
        .iter()
        .filter(|other| slip == Some(stem(other)))
        .chain(names.iter().filter(has_it))
        .copied()
        .collect();
    let mut seen = std::collections::HashSet::new();
    near.retain(|name| seen.insert(*name));
    near.truncate(MOST);
    near.into_iter().map(str::to_owned).collect()
}
