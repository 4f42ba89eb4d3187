//! LMDeploy's `chat/interactive`: conversations that the server stores. It gives the graph the
//! earlier messages as fields of the body.

use graphmill_dialects::{
    Fields,
    bodies::{
        INTERACTIVE,
        chat::{Chat, Conversation},
        lmdeploy::{History, Interactive as Own},
        tools::Tools,
    },
};
use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::{
    OwnParams, chat,
    dialect::{AnswerWriter, Dialect, Family, Framing, Purpose, Route, TextDialect},
    fields::missing,
    text_writer::TextWriter,
};
use crate::payload::{Finish, JsonBody, RequestInput, TextRequest};

/// Field of the body with the number of tokens of earlier messages.
const HISTORY_TOKENS: &str = "history_tokens";

/// The dialect of LMDeploy's `chat/interactive`.
#[derive(Debug)]
pub(super) struct Interactive;

impl Dialect for Interactive {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: INTERACTIVE,
            purpose: Purpose::Answer,
            summary: "Answers in a conversation that the server keeps, as LMDeploy does",
            required: &["prompt"],
            answer: &["text", "tokens", "input_tokens", "history_tokens"],
        }]
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }

    fn needs_no_model(&self) -> bool {
        true
    }

    fn keeps_conversations(&self) -> bool {
        true
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }
}

impl TextDialect for Interactive {
    fn id_prefix(&self) -> &'static str {
        "session-"
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let own: Own = fields.take()?;
        let said: History = fields.take()?;
        let prompt = own.prompt.ok_or_else(|| missing("prompt"))?;
        let before = Conversation::Messages(said.history);
        let mut turns = chat::turns(before, "history", &body.allowance())?;
        let more = chat::turns(prompt, "prompt", &body.allowance())?;
        turns.messages.extend(more.messages);
        turns.media.extend(more.media);
        let (chat, params) = chat::conversation(Chat::default(), Tools::default(), turns)?;
        let before = (HISTORY_TOKENS.to_owned(), said.history_tokens.into());
        let params = OwnParams {
            max_tokens: own.request_output_len,
            repeated: [before].into_iter().collect(),
            ..params
        };
        Ok((RequestInput::Chat(chat), params))
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        TextWriter::boxed(written)
    }
}

/// Writes the object of a text, or of a piece of it.
fn written(request: &TextRequest, text: &str, usage: &Usage, finish: Option<Finish>) -> Value {
    let before = request.echo.get(HISTORY_TOKENS).and_then(Value::as_u64);
    let before = before.unwrap_or_default();
    json!({
        "text": text,
        "tokens": usage.generated_tokens,
        "input_tokens": u64::from(usage.prompt_tokens).saturating_sub(before),
        "history_tokens": before,
        "finish_reason": finish.map(Finish::as_str),
    })
}
