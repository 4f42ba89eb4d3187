//! `GM082x`: subgraphs and their options.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[&NESTING, &SETTING, &OPTION_PATH, &UNUSED_OPTION];

/// Subgraphs within subgraphs, too many.
pub static NESTING: Code = Code {
    number: 820,
    title: "subgraphs nested too deep",
    explanation: "Subgraphs may be nested up to 64 deep.",
    wrong: "",
    right: "",
};

/// A setting of a graph that is used as a node.
pub static SETTING: Code = Code {
    number: 821,
    title: "setting that has no effect in a subgraph",
    explanation: "A graph that is used as a node does not run by itself: queues, threads, executors and the default input policy are \
                  those of the graph that runs. The setting has an effect only if this file itself runs.",
    wrong: r#"# graph.pbtxt
input_stream: "in"
output_stream: "out"
node { calculator: "EchoSubgraph" input_stream: "in" output_stream: "out" }
# echo.pbtxt
type: "EchoSubgraph"
max_queue_size: 4
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
    right: r#"# graph.pbtxt
input_stream: "in"
output_stream: "out"
node { calculator: "EchoSubgraph" input_stream: "in" output_stream: "out" }
# echo.pbtxt
type: "EchoSubgraph"
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
};

/// A path of `option_value` that leads nowhere.
pub static OPTION_PATH: Code = Code {
    number: 822,
    title: "`option_value` that leads nowhere",
    explanation: "`option_value: \"field:source\"` copies a value of the graph's options into the node's options. Both sides are paths: \
                  field names, and for one element of a repeated field its number, with `/` between; `options` stands for all of the \
                  options. The graph declares its options with `graph_options { [type.googleapis.com/mediapipe.X] { .. } }`.",
    wrong: r#"graph_options { [type.googleapis.com/mediapipe.DoorOptions] { open: true } }
input_stream: "in"
output_stream: "out"
node {
  calculator: "GateCalculator"
  input_stream: "in"
  output_stream: "out"
  option_value: "allow:Ext::mediapipe.WindowOptions/open"
}"#,
    right: r#"graph_options { [type.googleapis.com/mediapipe.DoorOptions] { open: true } }
input_stream: "in"
output_stream: "out"
node {
  calculator: "GateCalculator"
  input_stream: "in"
  output_stream: "out"
  option_value: "allow:options/open"
}"#,
};

/// An option of a subgraph that none of its nodes takes.
pub static UNUSED_OPTION: Code = Code {
    number: 823,
    title: "option that no node of the subgraph takes",
    explanation: "The nodes of a subgraph take its options by `option_value`. No node takes this one, so it would have no effect.",
    wrong: r#"# graph.pbtxt
input_stream: "in"
output_stream: "out"
node { calculator: "EchoSubgraph" input_stream: "in" output_stream: "out" node_options { [type.googleapis.com/mediapipe.DoorOptions] { close: false } } }
# echo.pbtxt
type: "EchoSubgraph"
graph_options { [type.googleapis.com/mediapipe.DoorOptions] { open: true } }
input_stream: "in"
output_stream: "out"
node { calculator: "GateCalculator" input_stream: "in" output_stream: "out" option_value: "allow:options/open" }"#,
    right: r#"# graph.pbtxt
input_stream: "in"
output_stream: "out"
node { calculator: "EchoSubgraph" input_stream: "in" output_stream: "out" node_options { [type.googleapis.com/mediapipe.DoorOptions] { open: false } } }
# echo.pbtxt
type: "EchoSubgraph"
graph_options { [type.googleapis.com/mediapipe.DoorOptions] { open: true } }
input_stream: "in"
output_stream: "out"
node { calculator: "GateCalculator" input_stream: "in" output_stream: "out" option_value: "allow:options/open" }"#,
};
