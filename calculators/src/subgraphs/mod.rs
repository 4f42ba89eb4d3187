//! Graphs that are used as nodes. Each is a `.pbtxt` file here.

use graphmill_engine::register_subgraph;

register_subgraph!(
    "HttpLLMCalculator",
    "http_llm.pbtxt",
    primary: "LLMCalculator",
    doc: "Serves OpenAI's chat and completions endpoints with one language model: the node of OVMS graphs, made of open nodes.",
);
