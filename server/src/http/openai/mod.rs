//! OpenAI's paths besides those of dialects. `/v1` and `/v3` are the same; `/v3/v1` is accepted for
//! old clients.

pub(super) mod models;
mod tokenizer;

use graphmill_calculators::http::dialect::PREFIXES;

use super::operation::{Answer, Group, Kind, OF_GRAPHS, Operation, Parameter};

pub(super) fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for prefix in PREFIXES {
        let listed = *prefix == PREFIXES[0];
        let list = Operation::get(format!("{prefix}/models"), models::list);
        let one = Operation::get(format!("{prefix}/models/{{*name}}"), models::one);
        operations.push(
            list.about(Group::Models, "The graphs that answer now")
                .answers(Answer::Json(&["data"]))
                .listed(listed),
        );
        operations.push(
            one.about(Group::Models, "One of them")
                .answers(Answer::Json(&["id"]))
                .refuses(OF_GRAPHS)
                .listed(listed),
        );
        let path = format!("{prefix}/tokenizer_info");
        operations.push(tokenizer_info(&path).listed(listed));
    }
    operations.push(tokenizer_info("/tokenizer_info").listed(false));
    operations
}

const OF_A_TOKENIZER: &[Parameter] = &[Parameter::new(
    "model",
    Kind::OptionalText,
    "The graph; without it, the only one with a language model",
)];

fn tokenizer_info(path: &str) -> Operation {
    Operation::get(path, tokenizer::info)
        .about(
            Group::Prompts,
            "The special tokens and the chat template of a model",
        )
        .asks(OF_A_TOKENIZER)
        .answers(Answer::Json(&[
            "model",
            "bos_token",
            "eos_token",
            "chat_template",
        ]))
        .refuses(OF_GRAPHS)
}
