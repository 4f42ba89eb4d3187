//! Answers with the likeliest of several sampled texts.

use graphmill_engine::{Error, Result};
use serde_json::{Value, json};

use super::{
    answer, lightllm,
    pieces::Pieces,
    request::{is_of_lightllm, text_before},
};
use crate::http::{
    dialect::{AnswerPackets, AnswerWriter},
    generate::reason,
};
use crate::payload::{TextChunk, TextRequest};

/// A writer that keeps all texts until they have ended, and then writes the answer of the
/// likeliest.
pub(super) struct BestOf {
    texts: Vec<Candidate>,
    /// True if the answer is the only entry of a list.
    is_listed: bool,
}

/// A text, as far as it has come.
#[derive(Clone, Default)]
struct Candidate {
    chunks: Vec<TextChunk>,
    /// Sum of the log probabilities of its tokens.
    likelihood: f64,
}

impl Candidate {
    fn has_ended(&self) -> bool {
        let last = self.chunks.last();
        last.is_some_and(|chunk| chunk.finish.is_some())
    }

    fn keep(&mut self, chunk: &TextChunk) {
        let tokens = chunk.logprobs.iter();
        let known = tokens.filter_map(|token| token.logprob).map(f64::from);
        self.likelihood += known.sum::<f64>();
        self.chunks.push(chunk.clone());
    }

    /// Returns the object of the text for the list of those that are not the answer.
    fn told(&self, request: &TextRequest) -> Value {
        let mut pieces = Pieces::default();
        let mut text = text_before(request).to_owned();
        let (mut tokens, mut top) = (Vec::new(), Vec::new());
        for chunk in &self.chunks {
            text.push_str(&chunk.text);
            for piece in pieces.divide(chunk) {
                tokens.push(piece.token);
                top.push(piece.top);
            }
        }
        let last = self.chunks.last();
        let mut told = json!({
            "generated_text": text,
            "finish_reason": last.and_then(|chunk| chunk.finish).map(reason),
            "generated_tokens": last.map_or(0, |chunk| chunk.usage.generated_tokens),
            "seed": null,
            "prefill": [],
            "tokens": tokens,
        });
        if top.iter().any(|top| *top != json!([])) {
            told["top_tokens"] = top.into();
        }
        told
    }
}

impl BestOf {
    pub(super) fn new(request: &TextRequest, is_listed: bool) -> Self {
        Self {
            texts: vec![Candidate::default(); request.choices()],
            is_listed,
        }
    }
}

impl AnswerWriter for BestOf {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let request = out.request;
        let text = self.texts.get_mut(chunk.index as usize);
        let text = text.ok_or_else(|| Error::internal(format!("no text {}", chunk.index)))?;
        if !text.has_ended() {
            text.keep(chunk);
        }
        if !self.texts.iter().all(Candidate::has_ended) {
            return Ok(false);
        }
        let mut texts = std::mem::take(&mut self.texts);
        texts.sort_by(|a, b| b.likelihood.total_cmp(&a.likelihood));
        let best = texts.remove(0);
        let mut writer: Box<dyn AnswerWriter> = if is_of_lightllm(request) {
            Box::new(lightllm::Texts::default())
        } else {
            let others = texts.iter().map(|text| text.told(request)).collect();
            Box::new(answer::Texts::best_of(others, self.is_listed))
        };
        for chunk in &best.chunks {
            out.usage = chunk.usage;
            writer.take(chunk, out)?;
        }
        Ok(true)
    }
}
