//! Graphs that are used as nodes. Each is a `.pbtxt` file here.

use graphmill_engine::register_subgraph;

register_subgraph!(
    "HttpLLMCalculator",
    "http_llm.pbtxt",
    primary: "LLMCalculator",
    doc: "Serves OpenAI's chat and completions endpoints with one language model: the node of OVMS graphs, made of open nodes.",
);

register_subgraph!(
    "EmbeddingsCalculator",
    "embeddings.pbtxt",
    primary: "EmbedCalculator",
    doc: "Serves OpenAI's embeddings endpoint with one model, made of open nodes.",
);

register_subgraph!(
    "EmbeddingsCalculatorOV",
    "embeddings.pbtxt",
    primary: "EmbedCalculator",
    doc: "As `EmbeddingsCalculator`: the node of OVMS graphs.",
);

register_subgraph!(
    "RerankCalculator",
    "rerank.pbtxt",
    primary: "RankCalculator",
    doc: "Serves the rerank endpoint that Cohere and Jina have with one model, made of open nodes.",
);

register_subgraph!(
    "RerankCalculatorOV",
    "rerank.pbtxt",
    primary: "RankCalculator",
    doc: "As `RerankCalculator`: the node of OVMS graphs.",
);
