//! `GM082x`: subgraphs and their options.

graphmill_grammar::codes! {
    /// Subgraphs within subgraphs, too many.
    NESTING = 820, "subgraphs nested too deep" {
        explanation: "Subgraphs may be nested up to 64 deep.",
        wrong: "",
        right: "",
    }

    /// A setting of a graph that is used as a node.
    SETTING = 821, "setting that has no effect in a subgraph" {
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
    }

    /// A path of `option_value` that leads nowhere.
    OPTION_PATH = 822, "`option_value` that leads nowhere" {
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
    }

    /// An option of a subgraph that none of its nodes takes.
    UNUSED_OPTION = 823, "option that no node of the subgraph takes" {
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
    }
}
