//! Fields of embeddings and rerank.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED, VALUE};
use super::super::limits::{MAX_DOCUMENTS, MAX_TEXTS};
use super::{EMBED, EMBEDDINGS, Field, Form, MOST, RERANK, field, refused};

/// How many types Cohere has.
const EMBEDDING_TYPES: usize = 6;

pub(super) const FIELDS: &[Field] = &[
    field(
        "model",
        &[EMBEDDINGS, EMBED, RERANK],
        Form::Text,
        "The name of the graph that answers.",
    )
    .refusing(&[refused(r#"{"model": ""}"#, "model", VALUE)]),
    field(
        "input",
        &[EMBEDDINGS],
        Form::Own(
            "a string, an array of strings, an array of token ids, or an array of such arrays; at most 2048 texts, and 4194304 token ids together",
        ),
        "The texts. One that is too long for the model is refused with its count of tokens, unless the node has `truncate: true`.",
    )
    .refusing(&[
        refused(r#"{"input": null}"#, "input", MISSING),
        refused(r#"{"input": 5}"#, "input", TYPE),
        refused(r#"{"input": {}}"#, "input", TYPE),
        refused(r#"{"input": []}"#, "input", VALUE),
        refused(r#"{"input": ["a", 5]}"#, "input[1]", TYPE),
        refused(r#"{"input": ["a", []]}"#, "input[1]", VALUE),
        refused(r#"{"input": [1, "a"]}"#, "input[1]", TYPE),
        refused(r#"{"input": [[1], [-1]]}"#, "input[1][0]", VALUE),
        refused(r#"{"input": ["a", [2000000000]]}"#, "input[1]", VALUE),
    ]),
    field(
        "encoding_format",
        &[EMBEDDINGS],
        Form::OneOf(&["float", "base64"]),
        "How vectors are written: numbers, or base64 of 32-bit floats, the lowest byte first.",
    ),
    field(
        "dimensions",
        &[EMBEDDINGS],
        Form::Integer(1, MOST),
        "The first so many numbers of each vector, made of length 1 again, where the node has `allow_dimensions: true`. The model's own number is always right.",
    )
    .refusing(&[refused(r#"{"dimensions": 100000}"#, "dimensions", VALUE)]),
    field(
        "truncate_prompt_tokens",
        &[EMBEDDINGS, RERANK],
        Form::Only(&[]),
        "No text is cut to so many tokens.",
    ),
    field("user", &[EMBEDDINGS], Form::Text, "Without effect."),
    field("texts", &[EMBED], Form::Array(MAX_TEXTS), "The texts, as `input` of `embeddings`.").refusing(&[
        refused(r#"{"texts": null}"#, "texts", MISSING),
        refused(r#"{"texts": []}"#, "texts", VALUE),
        refused(r#"{"texts": ["a", 5]}"#, "texts[1]", TYPE),
        refused(r#"{"texts": [1]}"#, "texts[0]", TYPE),
    ]),
    field(
        "input_type",
        &[EMBED],
        Form::OneOf(&["search_document", "search_query", "classification", "clustering"]),
        "Without effect: texts are read as they are.",
    ),
    field(
        "embedding_types",
        &[EMBED],
        Form::Array(EMBEDDING_TYPES),
        "How vectors are written, each under its name: `float`, which is meant where nothing is said, and `base64`.",
    )
    .refusing(&[
        refused(r#"{"embedding_types": [5]}"#, "embedding_types[0]", TYPE),
        refused(r#"{"embedding_types": ["float", "int8"]}"#, "embedding_types[1]", UNSUPPORTED),
        refused(
            r#"{"embedding_types": ["float", "int8", "base64", "ubinary"]}"#,
            "embedding_types[1]",
            UNSUPPORTED,
        ),
    ]),
    field(
        "output_dimension",
        &[EMBED],
        Form::Integer(1, MOST),
        "As `dimensions` of `embeddings`.",
    )
    .refusing(&[refused(r#"{"output_dimension": 100000}"#, "output_dimension", VALUE)]),
    field(
        "truncate",
        &[EMBED],
        Form::OneOf(&["NONE", "END"]),
        "Whether a text that is too long is cut at its end or refused; without it as the node has it.",
    ),
    field("images", &[EMBED], Form::Only(&["[]"]), "Inputs are text."),
    field("inputs", &[EMBED], Form::Only(&["[]"]), "Texts are in `texts`."),
    field(
        "query",
        &[RERANK],
        Form::Text,
        "What the documents should answer.",
    )
    .refusing(&[refused(r#"{"query": null}"#, "query", MISSING)]),
    field(
        "documents",
        &[RERANK],
        Form::Array(MAX_DOCUMENTS),
        "Strings, or objects with a `text`; all of one kind.",
    )
    .refusing(&[
        refused(r#"{"documents": null}"#, "documents", MISSING),
        refused(r#"{"documents": []}"#, "documents", VALUE),
        refused(r#"{"documents": ["a", 5]}"#, "documents[1]", TYPE),
        refused(r#"{"documents": ["a", {"text": "b"}]}"#, "documents[1]", VALUE),
        refused(r#"{"documents": [{"title": "b"}]}"#, "documents[0].text", MISSING),
        refused(r#"{"documents": [{"text": 5}]}"#, "documents[0].text", TYPE),
    ]),
    field(
        "top_n",
        &[RERANK],
        Form::Integer(1, MOST),
        "Most results; all without it.",
    ),
    field(
        "return_documents",
        &[RERANK],
        Form::Boolean,
        "Adds each result's document.",
    ),
    field(
        "max_chunks_per_doc",
        &[RERANK],
        Form::Integer(1, MOST),
        "Most pieces of a document that is too long for the model beside the query; all without it.",
    ),
    field(
        "rank_fields",
        &[RERANK],
        Form::Only(&[r#"["text"]"#]),
        "Documents are ranked by their `text`.",
    ),
];
