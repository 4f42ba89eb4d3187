//! OpenAI's `responses/compact`: summarizes a conversation into one item that replaces it.

use std::sync::Arc;

use graphmill_dialects::{Fields, bodies::COMPACT};
use graphmill_engine::Result;
use serde_json::{Value, json};

use super::{answer::usage, request};
use crate::http::{
    OwnParams,
    dialect::{AnswerPackets, AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
};
use crate::payload::{JsonBody, RequestInput, TextChunk, TextRequest, ToolChoice};

/// Prefix of this server's summaries in `encrypted_content`. Those of other servers cannot be read.
const MARK: &str = "graphmill:";

/// Instruction to the model, after the conversation.
const QUESTION: &str = "Sum up this conversation for an assistant that goes on with the work and sees nothing else of it: \
the goals and wishes of the user, what was decided and done, the files, commands and facts that matter, and what comes next. \
Answer with the summary and nothing else.";

/// The dialect of OpenAI's `responses/compact`.
#[derive(Debug)]
pub(in crate::http) struct Compact;

impl Dialect for Compact {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: COMPACT,
            purpose: Purpose::Answer,
            summary: "Sums a conversation up, as OpenAI's Responses do",
            required: &["model", "input"],
            answer: &["id", "object", "output"],
        }]
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }
}

impl TextDialect for Compact {
    fn id_prefix(&self) -> &'static str {
        "resp_"
    }

    /// Asks for a summary. Messages of the user are kept unchanged.
    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let (mut chat, mut params) = request::read(body, fields)?;
        Arc::make_mut(&mut chat.messages).push(json!({ "role": "user", "content": QUESTION }));
        chat.tools = None;
        chat.tool_choice = ToolChoice::Auto;
        params.constraint = None;
        let said: Value = match body.get("input")? {
            Some(Value::Array(items)) => {
                let is_said = |item: &&Value| item["role"] == "user";
                items.iter().filter(is_said).map(message).collect()
            }
            text => json!([message(&json!({ "content": text }))]),
        };
        params.repeated.clear();
        params.repeated.insert("output".to_owned(), said);
        Ok((RequestInput::Chat(chat), params))
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(CompactionWriter(String::new()))
    }
}

/// Converts an item to a message of the user, with all fields of output items except the id.
fn message(item: &Value) -> Value {
    let content = match &item["content"] {
        text @ Value::String(_) => json!([{ "type": "input_text", "text": text }]),
        parts => parts.clone(),
    };
    json!({ "id": "", "type": "message", "status": "completed", "role": "user", "content": content })
}

/// Returns the summary in a compaction, if this server wrote it.
pub(super) fn summary(content: &str) -> Option<&str> {
    content.strip_prefix(MARK)
}

/// A writer of a compaction, which is always one body. It has the summary so far.
struct CompactionWriter(String);

impl AnswerWriter for CompactionWriter {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let request = out.request;
        self.0.push_str(&chunk.text);
        if chunk.finish.is_none() {
            return Ok(false);
        }
        let mut answer = json!({
            "id": &*request.id,
            "object": "response.compaction",
            "created_at": request.created,
            "output": request.echo.get("output"),
            "usage": usage(&out.usage, 0),
        });
        if let Value::Array(output) = &mut answer["output"] {
            let suffix = request.id.trim_start_matches("resp_");
            for (at, message) in output.iter_mut().enumerate() {
                message["id"] = format!("msg_{suffix}_{at}").into();
            }
            let id = format!("cmp_{suffix}");
            let content = format!("{MARK}{}", self.0.trim());
            let item = json!({ "id": id, "type": "compaction", "encrypted_content": content });
            output.push(item);
        }
        out.whole(&answer)?;
        Ok(true)
    }
}
