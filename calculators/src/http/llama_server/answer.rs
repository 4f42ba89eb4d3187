//! Answers in llama-server's form: an object for each text, or events with pieces of it and a last
//! one with counts, times and settings.

use std::sync::Arc;

use graphmill_engine::{Error, Result, RunCx};
use graphmill_llm::Usage;
use serde_json::{Map, Value, json};

use super::request::{FIELDS, PROBABILITIES, SETTINGS, TOKENS};
use crate::http::{
    dialect::{AnswerPackets, AnswerWriter},
    logprobs::finite,
    wire::number,
};
use crate::payload::{Account, Finish, HttpResponse, Tally, TextChunk, TextLogprob, TextRequest};

/// A writer of answers in llama-server's form.
pub(super) struct LlamaServerWriter {
    choices: Vec<ChoiceText>,
    tally: Option<Arc<Tally>>,
}

/// A text, as far as it has come.
#[derive(Clone, Default)]
struct ChoiceText {
    /// Text, tokens and probabilities, kept for an answer in one object.
    piece: TextPiece,
    has_new_line: bool,
    /// Whole object of the text, once it has ended.
    told: Option<Value>,
}

/// A piece of a text.
#[derive(Clone, Default)]
struct TextPiece {
    text: String,
    tokens: Vec<Value>,
    probabilities: Vec<Value>,
}

impl TextPiece {
    /// Creates the piece of a chunk. The token that ended the text is not part of it.
    fn new(request: &TextRequest, chunk: &TextChunk) -> Self {
        let tokens = chunk.logprobs.iter().filter(|token| !token.ends);
        let ids = tokens.clone().map(|token| token.token.into());
        let of = |field: &str| request.echo.get(field);
        let tells_tokens = of(TOKENS) == Some(&true.into());
        let tells_probabilities = of(PROBABILITIES).is_some_and(|count| *count != 0);
        Self {
            text: chunk.text.clone(),
            tokens: ids.filter(|_| tells_tokens).collect(),
            probabilities: tokens
                .filter(|_| tells_probabilities)
                .map(probability)
                .collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tokens.is_empty() && self.probabilities.is_empty()
    }

    fn extend(&mut self, more: Self) {
        self.text.push_str(&more.text);
        self.tokens.extend(more.tokens);
        self.probabilities.extend(more.probabilities);
    }

    /// Converts the piece to an object.
    fn object(self, chunk: &TextChunk) -> Value {
        let mut object = json!({
            "index": chunk.index, "content": self.text, "tokens": self.tokens, "stop": false,
            "tokens_predicted": chunk.usage.generated_tokens,
            "tokens_evaluated": chunk.usage.prompt_tokens,
        });
        if !self.probabilities.is_empty() {
            object["completion_probabilities"] = self.probabilities.into();
        }
        object
    }
}

impl LlamaServerWriter {
    pub(super) fn new(request: &TextRequest) -> Self {
        Self {
            choices: vec![ChoiceText::default(); request.choices()],
            tally: None,
        }
    }

    /// Returns the object that ends a text, with the rest of it.
    fn last(
        &self,
        request: &TextRequest,
        chunk: &TextChunk,
        finish: Finish,
        piece: TextPiece,
    ) -> Value {
        let settings = request.echo.get(SETTINGS).cloned().unwrap_or_default();
        let (stop_type, word) = match finish {
            Finish::Stop | Finish::ToolCalls => ("eos", &Value::Null),
            Finish::StopString(place) => ("word", &settings["stop"][usize::from(place)]),
            Finish::Length => ("limit", &Value::Null),
        };
        let tallied = self.tally.as_ref().map(|tally| tally.read());
        let lowered = tallied.as_ref().and_then(|tallied| tallied.lowered);
        let asked = settings["n_predict"].as_u64();
        let limit = lowered.map(u64::from).or(asked);
        let mut last = piece.object(chunk);
        last["stop"] = true.into();
        last["model"] = (*request.model).into();
        last["tokens_cached"] = chunk.usage.cached_tokens.into();
        last["has_new_line"] = self.choices[chunk.index as usize].has_new_line.into();
        // Without a limit in the request, it is not known here if the context or the graph ended
        // the text.
        last["truncated"] = match (finish, limit) {
            (Finish::Length, None) => Value::Null,
            (Finish::Length, Some(limit)) => {
                (u64::from(chunk.usage.generated_tokens) < limit).into()
            }
            _ => false.into(),
        };
        last["stop_type"] = stop_type.into();
        last["stopping_word"] = word.as_str().unwrap_or_default().into();
        // Times belong to all texts together. Settings, which can be long, are the same for all.
        if let [_] = &self.choices[..] {
            let times = tallied.map(|it| [it.prefill.unwrap_or_default(), it.decoding]);
            let times = times.map(|times| times.map(|time| time.as_secs_f64() * 1e3));
            last["timings"] = times.map(|times| timings(&chunk.usage, times)).into();
            last[SETTINGS] = settings;
        }
        only(request, last)
    }
}

/// Keeps the fields of an object that the request asks for: all by default.
fn only(request: &TextRequest, object: Value) -> Value {
    let Some(Value::Array(fields)) = request.echo.get(FIELDS).filter(|it| **it != json!([])) else {
        return object;
    };
    let fields = fields.iter().filter_map(Value::as_str).filter_map(|path| {
        let value = object.pointer(&format!("/{path}"))?;
        Some((path.to_owned(), value.clone()))
    });
    fields.collect::<Map<_, _>>().into()
}

/// Returns token counts, and the milliseconds until the first token and from there to the last.
fn timings(usage: &Usage, [prompt_ms, predicted_ms]: [f64; 2]) -> Value {
    let prompt_n = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
    let predicted_n = usage.generated_tokens;
    let share = |of: f64, by: f64| if by > 0.0 { of / by } else { 0.0 };
    let mut timings = json!({
        "cache_n": usage.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": share(prompt_ms, prompt_n.into()),
        "prompt_per_second": share(f64::from(prompt_n) * 1e3, prompt_ms),
        "predicted_n": predicted_n,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": share(predicted_ms, predicted_n.into()),
        "predicted_per_second": share(f64::from(predicted_n) * 1e3, predicted_ms),
    });
    if let Some(drafts) = usage.drafts {
        timings["draft_n"] = (drafts.accepted + drafts.rejected).into();
        timings["draft_n_accepted"] = drafts.accepted.into();
    }
    timings
}

/// Returns a token with its log probability, and the likely tokens at its place.
fn probability(of: &TextLogprob) -> Value {
    let entry = |token: i32, bytes: &[u8], logprob: f32| {
        json!({
            "id": token, "token": String::from_utf8_lossy(bytes), "bytes": bytes,
            "logprob": number(finite(logprob)),
        })
    };
    let mut told = entry(of.token, &of.bytes, of.logprob.unwrap_or_default());
    let top = of.top.iter();
    let top = top.map(|likely| entry(likely.token, &likely.bytes, likely.logprob));
    told["top_logprobs"] = top.collect();
    told
}

impl AnswerWriter for LlamaServerWriter {
    fn begin(&mut self, run: &RunCx) {
        self.tally = Account::find(run).map(|account| Arc::clone(&account.tally));
    }

    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let request = out.request;
        let (index, count) = (chunk.index as usize, self.choices.len());
        let choice = self
            .choices
            .get_mut(index)
            .ok_or_else(|| Error::internal(format!("text for choice {index} of {count}")))?;
        if choice.told.is_some() {
            return Ok(false);
        }
        choice.has_new_line |= chunk.text.contains('\n');
        let piece = TextPiece::new(request, chunk);
        if !request.stream {
            choice.piece.extend(piece);
        } else if !piece.is_empty() {
            out.event(&piece.object(chunk))?;
        }
        let Some(finish) = chunk.finish else {
            return Ok(false);
        };
        let piece = std::mem::take(&mut choice.piece);
        let last = self.last(request, chunk, finish, piece);
        if request.stream {
            out.event(&last)?;
        }
        self.choices[index].told = Some(last);
        if self.choices.iter().any(|choice| choice.told.is_none()) {
            return Ok(false);
        }
        if request.stream {
            out.packets.push(HttpResponse::End);
        } else {
            let told = self.choices.iter_mut().filter_map(|it| it.told.take());
            let told: Vec<Value> = told.collect();
            match &told[..] {
                [only] => out.whole(only)?,
                all => out.whole(&all)?,
            }
        }
        Ok(true)
    }
}
