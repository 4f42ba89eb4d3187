//! `OpenAIRequestCalculator`: reads and checks requests for text, in all dialects.

use std::sync::Arc;

use chrono::Utc;
use graphmill_dialects::{
    Fields,
    bodies::{run::Run, token_details::TokenDetails},
};
use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, InputSet, OpenCx, Out, Res, Result, Run as Place, RunCx,
    register,
};
use graphmill_llm::Vocab;

use super::{
    body,
    defaults::{Defaults, OpenAIRequestOptions},
    dialect::{Family, Purpose, TextDialect},
    dialect_table,
    fields::{self, code, invalid, missing},
    inspect::{explain, question},
    params,
};
use crate::llm::{GenerationConfig, LanguageModel, claim_room, refused};
use crate::payload::{
    Account, GenerationParams, HttpRequestPayload, Partner, PromptQuestion, RequestInput,
    SpecialTokens, Terms, TextRequest, ToldTokens, ToolChoice,
};

/// Reads the body of a request for text in any dialect, such as OpenAI's `chat/completions`,
/// `completions` and `responses`, Anthropic's `messages`, Ollama's `api/chat`, and Triton's and
/// TGI's `generate`. Refuses fields that are wrong or that this graph does not support. Errors name
/// the field.
///
/// Emits the request and its generation parameters at the payload's timestamp. If `QUESTION` is
/// connected, the node also reads questions about prompts: `tokenize`, `detokenize`,
/// `apply-template`, `chat/completions/render` and `completions/render`, and chats and completions
/// with `?explain=1`. Such a request has a packet on `QUESTION` and none on `PARAMS`.
///
/// If the side packet that names the model is connected, the model's `generation_config.json`
/// supplies the defaults that the options do not set. The node then also reserves a place in the
/// model's queue. If the queue is full, the request is refused before anything is computed for it.
/// In a session with several requests, which are answered one after the other, only the first
/// reserves a place.
///
/// ```pbtxt
/// input_stream: "HTTP_REQUEST_PAYLOAD:input"
/// output_stream: "REQUEST:request"
/// output_stream: "PARAMS:params"
/// node {
///   calculator: "OpenAIRequestCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "HTTP_REQUEST_PAYLOAD:input"
///   output_stream: "REQUEST:request"
///   output_stream: "PARAMS:params"
///   node_options: { [type.googleapis.com/graphmill.OpenAIRequestCalculatorOptions] { temperature: 0.7 max_tokens: 512 } }
/// }
/// ```
pub struct OpenAIRequest {
    defaults: Defaults,
    model: Option<Arc<LanguageModel>>,
    /// True once the session has its place in the queue.
    has_place: bool,
}

/// The port handles of [`OpenAIRequest`].
#[derive(Copy, Clone, Debug)]
pub struct OpenAIRequestPorts {
    payload: In<HttpRequestPayload>,
    request: Out<TextRequest>,
    params: Out<GenerationParams>,
    question: Out<PromptQuestion>,
    model: Res<LanguageModel>,
}

impl Calculator for OpenAIRequest {
    const NAME: &'static str = "OpenAIRequestCalculator";
    const DOC: &'static str =
        "Reads and checks a request for text, of OpenAI's API or of another one that is served.";
    type Options = OpenAIRequestOptions;
    type Ports = OpenAIRequestPorts;

    fn contract(c: &mut Contract, _: &OpenAIRequestOptions) -> OpenAIRequestPorts {
        c.run(Place::Offload("cpu"));
        OpenAIRequestPorts {
            payload: c.input("HTTP_REQUEST_PAYLOAD"),
            request: c.output("REQUEST"),
            params: c.output("PARAMS"),
            question: c.optional_output("QUESTION"),
            model: c.optional_resource("LLM_NODE_RESOURCES", None),
        }
    }

    fn open(
        options: &OpenAIRequestOptions,
        io: OpenAIRequestPorts,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let model = cx.optional_resource(io.model);
        let defaults = match &model {
            Some(model) => Defaults::new(options, model.generation_config()),
            None => Defaults::new(options, &GenerationConfig::default()),
        };
        Ok(Self {
            defaults,
            model,
            has_place: false,
        })
    }

    fn process(&mut self, io: OpenAIRequestPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(payload) = cx.get(io.payload) else {
            return Ok(Flow::Continue);
        };
        let _claim = claim_room(payload.body.len().saturating_mul(BYTES_OF_EACH))?;
        let mut read = read(payload, &self.defaults, cx.run())?;
        if let Some(model) = &self.model {
            known_tokens(&read.params, &**model.vocab())?;
            // Only the number and form of the images and sounds is checked here. The node that
            // reads them checks that the model accepts them.
            if let RequestInput::Chat(chat) = &read.request.input {
                model.media().check(&model.engine(), &chat.media)?;
            }
            if let Some(terms) = Terms::find(cx.run()) {
                params::lift(terms, &mut read.params, model.engine().spec().min_priority);
            }
        }
        if let Some(question) = read.question {
            if !io.question.is_connected() {
                return Err(question::not_answered(payload));
            }
            if let Some(model) = &self.model {
                explain::check(&model.engine(), &read.params)?;
            }
            cx.emit(io.question, question);
        } else {
            if let Some(model) = &self.model
                && !std::mem::replace(&mut self.has_place, true)
            {
                if let Some(terms) = Terms::find(cx.run()) {
                    terms.quota.enqueue()?;
                }
                let params = &read.params;
                let place = model.engine().reserve(params.priority, params.tenant);
                read.params.place = Some(Arc::new(place.map_err(refused)?));
            }
            cx.emit(io.params, read.params);
        }
        cx.emit(io.request, read.request);
        Ok(Flow::Continue)
    }

    fn is_light(&self, io: OpenAIRequestPorts, set: &InputSet) -> bool {
        set.get(io.payload).is_none_or(body::is_light)
    }
}
register!(OpenAIRequest);

/// Refuses stop tokens that are not in the vocabulary, even for questions, which do not generate.
fn known_tokens(params: &GenerationParams, vocab: &dyn Vocab) -> Result<()> {
    let mut tokens = params.stop_tokens.iter();
    let Some(token) = tokens.find(|token| !vocab.contains(**token)) else {
        return Ok(());
    };
    let size = vocab.n_vocab();
    let message = format!("has {token}, which is not in the vocabulary of {size} tokens");
    Err(invalid("stop_token_ids", message))
}

/// Bytes of memory that reading takes for each byte of a body.
const BYTES_OF_EACH: usize = 4;

/// A request with its parameters or its question.
#[derive(Debug)]
struct ReadRequest {
    request: TextRequest,
    params: GenerationParams,
    question: Option<PromptQuestion>,
}

/// Reads a request of any dialect, with its parameters or its question.
fn read(payload: &HttpRequestPayload, defaults: &Defaults, run: &RunCx) -> Result<ReadRequest> {
    let Some((Family::Text(dialect), mut purpose)) = payload.served() else {
        return Err(dialect_table::not_read(OpenAIRequest::NAME, &payload.uri));
    };
    if purpose == Purpose::Answer {
        purpose = question::read_purpose(&payload.uri)?;
    }
    let json = body::json(payload)?;
    let needs_no_model = purpose.needs_no_model() || dialect.needs_no_model();
    if !needs_no_model && !json.has("model") {
        return Err(missing("model"));
    }
    // Called once, so all parts of an answer have the same `created`.
    let request = |model, input| TextRequest {
        id: format!("{}{}", dialect.id_prefix(), run.id.0).into(),
        created: Utc::now().timestamp() as u64,
        model,
        dialect,
        input,
        n: 1,
        stream: false,
        include_usage: false,
        continuous_usage: false,
        ignored: [].into(),
        logprobs: false,
        told: ToldTokens::default(),
        echo: Arc::default(),
        function_call: false,
    };
    if let Purpose::Tokens | Purpose::Encoding | Purpose::Text = purpose {
        let (question, input) = question::prompt_question(purpose, json)?;
        return Ok(ReadRequest {
            request: request(Arc::clone(&question.model), input),
            params: GenerationParams::default(),
            question: Some(question),
        });
    }
    let mut fields = fields::read_of(dialect.fields(), dialect.endpoint(), json)?;
    let (mut input, mut own) = dialect.input(json, &mut fields)?;
    let settings: Run = fields.take()?;
    let stream = settings.stream || own.stream;
    let function_call = own.function_call;
    let tells = read_details(dialect, &mut fields, stream)?;
    let mut repeated = std::mem::take(&mut own.repeated);
    let mut params = params::read(&mut fields, own, &settings, defaults, &json.allowance())?;
    params.adapters.clone_from(&payload.adapters);
    params.token_ids = tells.return_token_ids;
    params.prompt_logprobs = tells.prompt_logprobs;
    check_details(&params)?;
    if let Some(account) = Account::find(run) {
        params::hold_to(account, &mut params);
    }
    if let RequestInput::Chat(chat) = &mut input {
        let account = Account::find(run);
        if chat.template.is_some() && !account.is_some_and(|it| it.trusts_templates) {
            let message =
                "is not supported: the server runs without `--trust_request_chat_template`";
            return Err(invalid("chat_template", message).with_code(code::UNSUPPORTED));
        }
        if params.special_tokens == SpecialTokens::Skip {
            // The parsers after the model need the special tokens, and remove them.
            params.special_tokens = SpecialTokens::Markers;
        }
        chat.partner = Some(Partner {
            salt: params.cache_salt.clone(),
            adapters: params.adapters.clone(),
        });
        params.demands_call = chat.tool_choice != ToolChoice::Auto;
    }
    dialect.complete(&mut repeated, &params);
    if settings.stream_options.is_some() && !stream {
        return Err(invalid("stream_options", "needs `stream: true`"));
    }
    let usage = settings.stream_options.unwrap_or_default();
    let model: Arc<str> = settings.model.into();
    let kind = question::generation_question(purpose, json, defaults, &params, &fields.unknown);
    let question = kind.map(|kind| PromptQuestion {
        model: Arc::clone(&model),
        kind,
        truncation: params.truncation,
    });
    let request = TextRequest {
        n: params.n,
        stream,
        include_usage: usage.include_usage.unwrap_or(false),
        continuous_usage: usage.continuous_usage_stats.unwrap_or(false),
        ignored: fields.unknown.into(),
        logprobs: params.sampling.logprobs.is_some(),
        told: ToldTokens {
            prompt: params.echo,
            ids: tells.return_token_ids,
            by_id: tells.return_tokens_as_token_ids,
            prompt_logprobs: tells.prompt_logprobs,
        },
        echo: Arc::new(repeated),
        function_call,
        ..request(model, input)
    };
    Ok(ReadRequest {
        request,
        params,
        question,
    })
}

/// Reads the fields that ask for details of tokens.
///
/// # Errors
/// If the dialect's answers cannot have such details, or not in a stream.
fn read_details(
    dialect: &dyn TextDialect,
    fields: &mut Fields,
    stream: bool,
) -> Result<TokenDetails> {
    let told: TokenDetails = fields.take()?;
    let asked = [
        ("return_token_ids", told.return_token_ids),
        (
            "return_tokens_as_token_ids",
            told.return_tokens_as_token_ids,
        ),
        ("prompt_logprobs", told.prompt_logprobs.is_some()),
    ];
    let asked = asked.into_iter().find(|(_, asked)| *asked);
    match asked {
        Some((field, _)) if !dialect.tells_tokens() => {
            let message = "is a field of `chat/completions` and `completions`";
            Err(invalid(field, message).with_code(code::UNSUPPORTED))
        }
        _ if stream && told.prompt_logprobs.is_some() => {
            let message = "is not supported in a stream";
            Err(invalid("prompt_logprobs", message).with_code(code::UNSUPPORTED))
        }
        _ => Ok(told),
    }
}

/// Refuses a `prompt_logprobs` that differs from `logprobs` if both apply to the prompt.
fn check_details(params: &GenerationParams) -> Result<()> {
    let echoed = params.sampling.logprobs.filter(|_| params.echo);
    match (params.prompt_logprobs, echoed) {
        (Some(asked), Some(echoed)) if asked != echoed => {
            let message = format!("must be equal to `logprobs` ({echoed}) with `echo`");
            Err(invalid("prompt_logprobs", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
