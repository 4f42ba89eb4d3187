//! Limits of a request's generation: the options of the graph, the limits of its key, and the nodes
//! of the graph that enforce formats.

use graphmill_engine::{Error, Result};
use graphmill_llm::{CompiledConstraint, DraftSource, LlmEngine, SpeculationParams};

use super::{LlmOptions, wrong};
use crate::payload::{GenerationBounds, GenerationParams, TextConstraint, TokenPrompt};

/// The limits that the options set for a request.
#[derive(Copy, Clone, Debug)]
pub(super) struct Limits {
    n: u32,
    max_input_tokens: u32,
    max_tokens: Option<u32>,
    num_assistant_tokens: u32,
    max_ngram_size: u32,
}

impl Limits {
    /// Takes the limits from the options.
    pub(super) fn new(options: &LlmOptions) -> Self {
        Self {
            n: options.node.best_of_limit,
            max_input_tokens: options.node.max_input_tokens,
            num_assistant_tokens: options.node.num_assistant_tokens,
            max_ngram_size: options.node.max_ngram_size,
            max_tokens: (options.node.max_tokens_limit > 0)
                .then_some(options.node.max_tokens_limit),
        }
    }

    /// Refuses prompts that are longer than the graph allows.
    pub(super) fn check_prompts(self, prompts: &[TokenPrompt]) -> Result<()> {
        let most = self.max_input_tokens;
        let longest = prompts.iter().map(|prompt| prompt.tokens.len()).max();
        match longest.filter(|length| most > 0 && *length > most as usize) {
            None => Ok(()),
            Some(length) => {
                let message = format!(
                    "the prompt has {length} tokens, but the graph takes at most {most} \
                     (max_input_tokens)"
                );
                Err(Error::invalid(message).with_code("context_length_exceeded"))
            }
        }
    }

    /// Returns the maximum number of tokens of each choice, if the request is within the limits.
    pub(super) fn max_tokens(self, params: &GenerationParams) -> Result<Option<u32>> {
        if params.n >= self.n {
            let message = format!(
                "`n` (or `best_of`) is {}, but must be below {} (best_of_limit of the graph)",
                params.n, self.n
            );
            return Err(Error::invalid(message).with_field("n"));
        }
        Ok(self
            .lowered(params)
            .or(params.max_tokens)
            .or(self.max_tokens))
    }

    /// Returns the maximum number of tokens of each choice if it is less than the request asks for.
    pub(super) fn lowered(self, params: &GenerationParams) -> Option<u32> {
        let limit = self.max_tokens?;
        (params.max_tokens? > limit).then_some(limit)
    }

    /// Returns the drafting parameters of a request, with the graph's defaults. With a draft model
    /// all requests draft. Without one, those that ask for it do, or all if `prompt_lookup` is set.
    pub(super) fn speculation(
        self,
        params: &GenerationParams,
        engine: &LlmEngine,
    ) -> Result<Option<SpeculationParams>> {
        let has_model = engine.info().draft.is_some();
        let threshold = params.assistant_confidence_threshold;
        if threshold.is_some() && !has_model {
            let message = "`assistant_confidence_threshold` needs a draft model, but this graph has none (draft_models_path)";
            return Err(Error::invalid(message).with_field("assistant_confidence_threshold"));
        }
        let asked = params.num_assistant_tokens.is_some() || params.max_ngram_size.is_some();
        let drafts = asked || has_model || engine.spec().plugin_config.prompt_lookup;
        if params.num_assistant_tokens == Some(0) || !drafts {
            return Ok(None);
        }
        let source = if has_model && params.max_ngram_size.is_none() {
            DraftSource::Model {
                confidence_threshold: threshold.unwrap_or(0.0),
            }
        } else {
            DraftSource::Text {
                max_ngram_size: params.max_ngram_size.unwrap_or(self.max_ngram_size),
            }
        };
        // If a threshold ends drafts, their number needs no limit.
        let unsaid = if threshold.is_some() {
            SpeculationParams::MAX_DRAFTS
        } else {
            self.num_assistant_tokens
        };
        Ok(Some(SpeculationParams {
            num_assistant_tokens: params.num_assistant_tokens.unwrap_or(unsaid),
            source,
        }))
    }
}

/// Returns the maximum that a request may take of its key's limits, with `most` tokens in a choice
/// and a model with this context.
pub(super) fn need(
    prompts: &[TokenPrompt],
    params: &GenerationParams,
    most: Option<u32>,
    context: u64,
) -> GenerationBounds {
    let n = u64::from(params.n);
    let lengths = || prompts.iter().map(|prompt| prompt.tokens.len() as u64);
    let generated = |most: u32| {
        let each = lengths().map(|length| u64::from(most).min(context.saturating_sub(length)));
        n * each.sum::<u64>()
    };
    GenerationBounds {
        prompt_tokens: lengths().sum(),
        generated_tokens: most.map(generated),
        sequences: (prompts.len() as u64 * n).try_into().unwrap_or(u32::MAX),
        n: params.n,
    }
}

/// Returns the compiled constraint of the text. Refuses the request if the graph cannot enforce it.
pub(super) fn compiled(params: &GenerationParams) -> Result<Option<CompiledConstraint>> {
    match &params.constraint {
        Some(TextConstraint {
            field,
            compiled: None,
            ..
        }) => Err(lacks(field, "ConstraintCalculator")),
        constraint => Ok(constraint.as_ref().and_then(|it| it.compiled.clone())),
    }
}

/// Refuses requests that demand a tool call or limit the reasoning, if the graph does not know the
/// model's formats.
pub(super) fn refuse_what_is_not_formatted(params: &GenerationParams) -> Result<()> {
    let demands = [
        ("tool_choice", params.demands_call),
        ("thinking_token_budget", params.reasoning_budget.is_some()),
    ];
    match demands.iter().find(|(_, demanded)| *demanded) {
        None => Ok(()),
        Some((field, _)) => Err(lacks(field, "OutputFormatCalculator")),
    }
}

/// Returns the error for a field that a graph without this node does not support.
fn lacks(field: &str, node: &str) -> Error {
    let message = format!("is not supported: this graph has no {node}");
    wrong(field, &message, "unsupported_parameter")
}
