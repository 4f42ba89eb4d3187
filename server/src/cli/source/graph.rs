//! The generated graph for a model.

use std::path::Path;

use graphmill_llm::ModelKind;

use super::ModelFlags;

/// Graph of a model that generates. `OPTIONS` is replaced by the model's options, and `SAMPLING` by
/// the options of the request node.
const CHAT: &str = r#"input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"

node {
  name: "LLMExecutor"
  calculator: "HttpLLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_stream: "LOOPBACK:loopback"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
        sync_set { tag_index: "LOOPBACK:0" }
      }
    }
  }
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] {
OPTIONS
    }
  }
SAMPLING}
"#;

/// Options of the request node.
const SAMPLING: &str = "  node_options {
    [type.googleapis.com/graphmill.OpenAIRequestCalculatorOptions] {
OPTIONS
    }
  }
";

/// Graph of a model that embeds or ranks. `Task` is replaced by the name of its task, `TASK` and
/// `task` by the same in upper and lower case.
const VECTORS: &str = r#"input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"

node {
  name: "TaskExecutor"
  calculator: "TaskCalculatorOV"
  input_side_packet: "TASK_NODE_RESOURCES:task_servable"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options {
    [type.googleapis.com/mediapipe.TaskCalculatorOVOptions] {
OPTIONS
    }
  }
}
"#;

/// Returns the graph of a model that embeds or ranks.
fn vectors(task: &str) -> String {
    let graph = VECTORS.replace("Task", task);
    let graph = graph.replace("TASK", &task.to_uppercase());
    graph.replace("task", &task.to_lowercase())
}

/// Writes the graph of a model. The graph names the model by its absolute path.
pub(super) fn text(model: &Path, kind: ModelKind, flags: &ModelFlags) -> Result<String, String> {
    text_with(model, kind, flags, None)
}

/// Writes the graph of a model that generates, with its projector: a file, or `none`.
pub(super) fn text_with(
    model: &Path,
    kind: ModelKind,
    flags: &ModelFlags,
    projector: Option<&str>,
) -> Result<String, String> {
    let mut options = vec![("models_path", quoted(&whole_path(model)?))];
    let projector = projector.filter(|_| kind == ModelKind::Generates);
    options.extend(projector.map(|projector| ("mmproj", quoted(projector))));
    options.extend(flags.options(kind)?);
    let with = |template: &str, options: &[(&str, String)]| {
        let options = options.iter();
        let lines = options.map(|(field, value)| format!("      {field}: {value}"));
        let lines: Vec<String> = lines.collect();
        template.replacen("OPTIONS", &lines.join("\n"), 1)
    };
    let sampling = match flags.sampling(kind)? {
        none if none.is_empty() => String::new(),
        sampling => with(SAMPLING, &sampling),
    };
    let graph = match kind {
        ModelKind::Generates => CHAT.replacen("SAMPLING", &sampling, 1),
        ModelKind::Embeds => vectors("Embeddings"),
        ModelKind::Ranks => vectors("Rerank"),
    };
    let head = "# Written by `graphmill serve --emit_graph`. To change it, save it as graph.pbtxt \
                and serve its folder.\n\n";
    Ok(format!("{head}{}", with(&graph, &options)))
}

/// Returns the absolute path of a model.
pub(super) fn whole_path(model: &Path) -> Result<String, String> {
    let shown = model.display();
    let whole = std::path::absolute(model)
        .map_err(|error| format!("cannot find the folder of `{shown}`: {error}"))?;
    let path = whole.to_str().map(str::to_owned);
    path.ok_or_else(|| format!("the path `{shown}` is not UTF-8"))
}

/// Quotes a string for the text format.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{Environment, Files, Plan, Registry};
    use graphmill_grammar::{SourceMap, parse_graph, render};

    use super::*;

    #[test]
    fn graphs_compile_whatever_the_path_and_the_options_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let model = folder.path().join("a \"quoted\" \\ n\u{e4}me.script.json");
        std::fs::write(&model, "{}").expect("writable");
        let flags = ModelFlags {
            max_num_seqs: Some(3),
            plugin_config: Some(r#"{"kv_type_k": "f16"}"#.to_owned()),
            tool_parser: Some("none".to_owned()),
            ..ModelFlags::default()
        };
        let unset = ModelFlags::default();
        for (kind, flags) in [
            (ModelKind::Generates, &flags),
            (ModelKind::Embeds, &unset),
            (ModelKind::Ranks, &unset),
        ] {
            let text = text(&model, kind, flags).expect("a graph");
            let mut sources = SourceMap::new();
            let read = parse_graph(&mut sources, "graph".to_owned(), text.as_bytes());
            let said = render::human(&sources, &read.diagnostics, render::Color::Plain);
            let graph = read.graph.expect(&said);
            let environment = Environment::new(Registry::global())
                .with_files(Files::new(folder.path()))
                .without_loading();
            let (plan, diagnostics) = Plan::compile(&graph, &mut sources, &environment);
            assert!(
                plan.is_some() && diagnostics.is_empty(),
                "{text}\n{}",
                render::human(&sources, &diagnostics, render::Color::Plain)
            );
        }
    }
}
