//! What this crate and that of the nodes of `MediaPipe` register: the names, their documentation, and the
//! graphs that use them.

use std::collections::BTreeSet;
use std::path::Path;

use graphmill_calculators as _;
use graphmill_engine::testing::check;
use graphmill_engine::{Environment, Registry, registry::Registration};
use graphmill_mediapipe as _;

mod extremes;
mod reference;
mod shared;
mod sources;

use shared::shared;
use sources::all_files;

/// The node that defines the model, for examples of nodes that only use it.
const MODEL: &str = r#"
input_stream: "EXAMPLE_PROMPTS:example_prompts"
input_stream: "EXAMPLE_PARAMS:example_params"
output_stream: "EXAMPLE_TOKENS:example_tokens"
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:example_prompts"
  input_stream: "PARAMS:example_params"
  output_stream: "TOKENS:example_tokens"
  options { [mediapipe.LLMCalculatorOptions.ext] { models_path: "./" } }
}
"#;

fn environment() -> Environment {
    Environment::new(Registry::global()).without_loading()
}

#[test]
fn these_calculators_are_registered() {
    let registry = Registry::global();
    let mut names: Vec<&str> = registry
        .calculators()
        .map(|calculator| calculator.name)
        .collect();
    names.extend(registry.containers().map(|container| container.name));
    names.extend(registry.subgraphs().map(|subgraph| &*subgraph.name));
    insta::assert_snapshot!(names.join("\n"), @"
    BatchedNodeCalculator
    BeginItemLoopCalculator
    BeginLoopBooleanCalculator
    BeginLoopFloatCalculator
    BeginLoopIntCalculator
    BeginLoopStringCalculator
    BeginLoopUint64tCalculator
    BypassCalculator
    CallbackCalculator
    ChatTemplateCalculator
    ClipFloatVectorSizeCalculator
    ClipIntVectorSizeCalculator
    ClipStringVectorSizeCalculator
    ConcatenateBoolVectorCalculator
    ConcatenateFloatVectorCalculator
    ConcatenateInt32VectorCalculator
    ConcatenateStringVectorCalculator
    ConcatenateUInt64VectorCalculator
    ConstantSidePacketCalculator
    ConstraintCalculator
    CounterSourceCalculator
    CountingSinkCalculator
    CountingSourceCalculator
    DefaultSidePacketCalculator
    DemuxCalculator
    DequantizeByteArrayCalculator
    DetokenizerCalculator
    EmbedCalculator
    EmbeddingsRequestCalculator
    EmbeddingsResponseCalculator
    EndItemLoopCalculator
    EndLoopBooleanCalculator
    EndLoopFloatCalculator
    EndLoopIntCalculator
    EndLoopStringCalculator
    EndLoopUint64tCalculator
    FloatVectorIndicesCalculator
    FloatVectorSizeCalculator
    FlowLimiterCalculator
    GateCalculator
    GetFloatVectorItemCalculator
    GetIntVectorItemCalculator
    GetStringVectorItemCalculator
    ImageDecodeCalculator
    ImageEncoderCalculator
    ImageLayoutCalculator
    ImageNormalizeCalculator
    ImageResizeCalculator
    ImmediateMuxCalculator
    IntVectorIndicesCalculator
    IntVectorSizeCalculator
    LLMCalculator
    MakePairCalculator
    MediaDecoderCalculator
    MergeBoolsToVectorCalculator
    MergeCalculator
    MergeFloatsToVectorCalculator
    MergeIntsToVectorCalculator
    MergeStringsToVectorCalculator
    MuxCalculator
    NonZeroCalculator
    OnnxInferenceCalculator
    OnnxSessionCalculator
    OpenAIRequestCalculator
    OpenAIResponseCalculator
    OpenVINOInferenceCalculator
    OpenVINOModelServerSessionCalculator
    OutputFormatCalculator
    PacketClonerCalculator
    PacketInnerJoinCalculator
    PacketPresenceCalculator
    PacketResamplerCalculator
    PacketSequencerCalculator
    PacketThinnerCalculator
    PassThroughCalculator
    PreviousLoopbackCalculator
    PromptReportCalculator
    QuantizeFloatVectorCalculator
    RankCalculator
    RealTimeFlowLimiterCalculator
    ReasoningParserCalculator
    RerankRequestCalculator
    RerankResponseCalculator
    RoundRobinDemuxCalculator
    SequenceShiftCalculator
    SidePacketToStreamCalculator
    SplitBoolVectorCalculator
    SplitFloatVectorCalculator
    SplitInt32VectorCalculator
    SplitStringVectorCalculator
    SplitUint64tVectorCalculator
    StopStringCalculator
    StreamToSidePacketCalculator
    StringToBoolCalculator
    StringToDoubleCalculator
    StringToFloatCalculator
    StringToInt32Calculator
    StringToInt64Calculator
    StringToIntCalculator
    StringToUint32Calculator
    StringToUint64Calculator
    StringToUintCalculator
    StringVectorIndicesCalculator
    StringVectorSizeCalculator
    SwitchDemuxCalculator
    SwitchMuxCalculator
    TextAnswerCalculator
    TextFeaturesCalculator
    TextToRequestCalculator
    TokenizerCalculator
    ToolParserCalculator
    TopLabelsCalculator
    Uint64tVectorIndicesCalculator
    Uint64tVectorSizeCalculator
    ValueOrDefaultCalculator
    DynamicBatchCalculator
    SwitchContainer
    EmbeddingsCalculator
    EmbeddingsCalculatorOV
    HttpLLMCalculator
    RerankCalculator
    RerankCalculatorOV
    ");
}

#[test]
fn each_says_what_it_does() {
    let registry = Registry::global();
    for calculator in registry.describe() {
        assert!(!calculator.doc.is_empty(), "{} has no DOC", calculator.name);
        assert!(
            !calculator.ports.is_empty(),
            "{} has no ports",
            calculator.name
        );
    }
    for subgraph in registry.subgraphs() {
        assert!(!subgraph.doc.is_empty(), "{} has no doc", subgraph.name);
    }
}

/// Every calculator has an example graph in its documentation, and every example compiles. One
/// example does for all names of a generic calculator, and compiles with each of them.
#[test]
fn examples_in_the_documentation_are_graphs() {
    let registry = Registry::global();
    let mut shown = BTreeSet::new();
    for file in all_files() {
        let source = std::fs::read_to_string(&file).expect("a source file");
        for example in examples(&source) {
            assert_compiles(&example, &file);
            let written = |name: &str| example.contains(&format!("calculator: \"{name}\""));
            let containers = registry.containers().map(|container| container.name);
            shown.extend(containers.filter(|name| written(name)));
            for node in registry.calculators().filter(|node| written(node.name)) {
                shown.insert(node.name);
                let family =
                    |other: &&Registration| other.family == node.family && other.name != node.name;
                for other in registry.calculators().filter(family) {
                    shown.insert(other.name);
                    assert_compiles(&example.replace(node.name, other.name), &file);
                }
            }
        }
    }
    for description in registry.describe() {
        let name = description.name;
        assert!(shown.contains(name), "{name} has no example graph");
    }
}

fn assert_compiles(example: &str, file: &Path) {
    let defined =
        example.contains("LLMCalculatorOptions") || !example.contains("LLM_NODE_RESOURCES");
    let graph = if defined {
        example.to_owned()
    } else {
        format!("{example}{MODEL}")
    };
    let problems = check(&graph, &environment());
    assert!(
        problems.is_empty(),
        "{}:\n{graph}\n{problems}",
        file.display()
    );
}

#[test]
fn shipped_graphs_compile() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for graph in [
        "graphs/chat",
        "graphs/ovms_llm",
        "graphs/embeddings",
        "graphs/rerank",
        "graphs/text",
        "graphs/images",
    ] {
        let text = std::fs::read_to_string(root.join(graph).join("graph.pbtxt")).expect("a graph");
        assert_eq!(check(&text, &environment()), "", "{graph}");
    }
}

#[test]
fn the_graph_of_the_ovms_demo_compiles_as_it_is() {
    let path = shared().join("reference/ovms_demo/graph.pbtxt");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return;
    };
    assert_eq!(check(&text, &environment()), "");
    // Newer graphs of the same kind name a second side packet, which has nothing to say here.
    let newer = text.replace(
        "input_side_packet: \"LLM_NODE_RESOURCES:llm\"",
        "input_side_packet: \"LLM_NODE_RESOURCES:llm\"\n  input_side_packet: \"LLM_NODE_EXECUTION_CONTEXTS:llm_ctx\"",
    );
    assert_eq!(check(&newer, &environment()), "");
}

#[test]
fn wrong_options_are_named() {
    let graph = |options: &str| {
        include_str!("../../graphs/chat/graph.pbtxt")
            .replace("cache_size: 2 ", &format!("{options} "))
    };
    for (options, named) in [
        ("cach_size: 2", "cache_size"),
        ("plugin_config: '{\"thread\": 2}'", "thread"),
        ("device: \"NPU\"", "NPU"),
        ("pipeline_type: VL", "pipeline_type"),
        ("max_num_seqs: 0", "max_num_seqs"),
    ] {
        let problems = check(&graph(options), &environment());
        assert!(problems.contains(named), "{options}:\n{problems}");
    }
}

/// The `pbtxt` blocks of a file's documentation comments.
fn examples(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in source.lines() {
        let Some(line) = line.trim().strip_prefix("///") else {
            open = None;
            continue;
        };
        match (&mut open, line.trim()) {
            (None, "```pbtxt") => open = Some(String::new()),
            (Some(_), "```") => found.extend(open.take()),
            (Some(text), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    found
}
