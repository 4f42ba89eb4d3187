//! OpenAI's paths besides those of dialects. `/v1` and `/v3` are the same; `/v3/v1` is accepted for
//! old clients.

pub(super) mod models;
mod tokenizer;

use graphmill_calculators::http::dialect::PREFIXES;

use super::operation::{Answer, Group, Kind, OF_GRAPHS, Operation, Parameter};

#[rustfmt::skip]
pub(super) fn operations() -> Vec<Operation> {
    let own = |prefix: &&str| [
        Operation::get(&format!("{prefix}/models"), models::list).about(Group::Models, "The graphs that answer now")
            .answers(Answer::Json(&["data"])),
        Operation::get(&format!("{prefix}/models/{{*name}}"), models::one).about(Group::Models, "One of them").answers(Answer::Json(&["id"]))
            .refuses(OF_GRAPHS),
        tokenizer_info(&format!("{prefix}/tokenizer_info")),
    ].map(|operation| operation.listed(*prefix == PREFIXES[0]));
    let bare = tokenizer_info("/tokenizer_info").listed(false);
    PREFIXES.iter().flat_map(own).chain([bare]).collect()
}

#[rustfmt::skip]
fn tokenizer_info(path: &str) -> Operation {
    Operation::get(path, tokenizer::info)
        .about(Group::Prompts, "The special tokens and the chat template of a model")
        .asks(const { &[Parameter::new("model", Kind::OptionalText, "The graph; without it, the only one with a language model")] })
        .answers(Answer::Json(&["model", "bos_token", "eos_token", "chat_template"]))
        .refuses(OF_GRAPHS)
}
