//! Public graph files of the field: each is read as its index says.

use std::fs;

use graphmill_grammar::{SourceMap, diag, parse, parse_graph};

use crate::common;

#[test]
fn every_graph_of_the_corpus_is_read_and_nothing_else_is() {
    let Some(corpus) = common::shared("corpus") else {
        return;
    };
    let index = fs::read_to_string(corpus.join("INDEX.tsv")).expect("the corpus has an index");
    let mut read = 0;
    for line in index.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (path, kind, nodes) = (columns[0], columns[1], columns[2]);
        let text = fs::read_to_string(corpus.join(path)).expect("the file of the index exists");
        let mut sources = SourceMap::new();
        let parsed = parse_graph(&mut sources, path, text.as_str());
        let shown = common::shown(&sources, &parsed.diagnostics);
        match kind {
            "graph" | "graph-unknown-options" => {
                let (graph, _) = parsed
                    .into_result()
                    .unwrap_or_else(|_| panic!("{path}:\n{shown}"));
                if !nodes.is_empty() {
                    assert_eq!(
                        graph.node.len(),
                        nodes.parse::<usize>().expect("a number"),
                        "{path}"
                    );
                }
                let written = text.matches("type.googleapis.com").count();
                let kept = graph
                    .node
                    .iter()
                    .map(|node| node.node_options.len())
                    .sum::<usize>()
                    + graph.graph_options.len();
                assert_eq!(kept, written, "{path}");
            }
            "not-a-graph" => {
                let file = sources.add(path, text);
                assert_eq!(parse(&sources, file).1, [], "{path} is valid text format");
                assert!(diag::has_errors(&parsed.diagnostics), "{path} is no graph");
            }
            other => panic!("{path}: unknown kind {other}"),
        }
        read += 1;
    }
    assert!(read > 100, "only {read} files in the index");
}

#[test]
fn every_pbtxt_file_of_the_corpus_is_valid_text_format() {
    let Some(corpus) = common::shared("corpus") else {
        return;
    };
    let mut folders = vec![corpus];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "pbtxt")
            {
                let mut sources = SourceMap::new();
                let file = sources.add(
                    path.display().to_string(),
                    fs::read_to_string(&path).expect("text"),
                );
                let (_, diagnostics) = parse(&sources, file);
                assert!(
                    diagnostics.is_empty(),
                    "{}",
                    common::shown(&sources, &diagnostics)
                );
                read += 1;
            }
        }
    }
    assert!(read > 100, "only {read} files in the corpus");
}

/// Graphs of the conformance cases that the reference engine has accepted.
#[test]
fn every_conformance_graph_that_is_accepted_is_read() {
    let Some(folder) = common::shared("conformance/graph") else {
        return;
    };
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let case: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("text"))
                .expect("a case is JSON");
        if case["observed"]["create"] != "OK" {
            continue;
        }
        let mut sources = SourceMap::new();
        let name = path.display().to_string();
        let parsed = parse_graph(
            &mut sources,
            name.as_str(),
            case["pbtxt"].as_str().expect("a graph"),
        );
        assert!(
            !diag::has_errors(&parsed.diagnostics),
            "{}",
            common::shown(&sources, &parsed.diagnostics)
        );
        read += 1;
    }
    assert!(read > 50, "only {read} cases");
}

#[test]
fn the_published_llm_graph_is_read() {
    let Some(path) = common::shared("reference/ovms_demo/graph.pbtxt") else {
        return;
    };
    let mut sources = SourceMap::new();
    let parsed = parse_graph(
        &mut sources,
        "graph.pbtxt",
        fs::read_to_string(path).expect("text"),
    );
    let shown = common::shown(&sources, &parsed.diagnostics);
    let (graph, warnings) = parsed.into_result().unwrap_or_else(|_| panic!("{shown}"));
    assert_eq!(warnings, []);
    let node = &graph.node[0];
    assert_eq!(
        node.calculator.as_ref().expect("named").value,
        "HttpLLMCalculator"
    );
    assert_eq!(
        node.input_side_packet[0].to_string(),
        "LLM_NODE_RESOURCES:llm"
    );
    let info = &node.input_stream_info[0];
    assert_eq!(
        info.tag_index.as_ref().expect("given").to_string(),
        "LOOPBACK"
    );
    assert!(
        info.back_edge
            .as_ref()
            .is_some_and(|back_edge| back_edge.value)
    );
    let options = node.all_options().next().expect("given");
    assert_eq!(
        (options.type_name(), options.short_name()),
        ("mediapipe.LLMCalculatorOptions", "LLMCalculatorOptions")
    );
    let policy = node.input_stream_handler.as_ref().expect("given");
    assert_eq!(
        policy.input_stream_handler.as_ref().expect("given").value,
        "SyncSetInputStreamHandler"
    );
    let sync_set = &policy.options.as_ref().expect("given").messages[0];
    assert_eq!(
        sync_set.type_name(),
        "mediapipe.SyncSetInputStreamHandlerOptions"
    );
}
