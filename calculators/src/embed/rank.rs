//! `RankCalculator`: scores documents by a query, or classifies texts.

use std::ops::Range;
use std::sync::Arc;

use graphmill_dialects::error::invalid;
use graphmill_engine::{
    Calculator, CancelToken, Contract, Cx, Error, Events, Flow, In, Offset, OpenCx, Out, Policy,
    Res, Result, Run, Timestamp, register,
};
use graphmill_llm::Token;
use graphmill_llm::embed::{EmbeddingHandle, EmbeddingOutcome, Head};
use graphmill_llm::memory_budget::Claim;

use super::engine;
use super::{EmbeddingModel, RankOptions};
use crate::llm::{self, claim_room, not_tokenized};
use crate::payload::{Classes, Prompt, Relevance, RerankRequest};

/// Scores how well each document of a request answers its query, or classifies texts. Texts are
/// batched with those of all other sessions of the same model.
///
/// Requests are served one after the other, and their scores come out at their timestamps. Waiting
/// requests stay in the queue. A document that does not fit into the model together with the query
/// is cut into pieces, and gets the score of the best piece. A text to classify is never cut into
/// pieces. Models with more than two classes give no scores. The node runs on the executor `cpu`,
/// because tokenizing many documents takes time.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// output_stream: "RELEVANCE:relevance"
/// node {
///   calculator: "RankCalculator"
///   input_side_packet: "RERANK_NODE_RESOURCES:rerank_servable"
///   input_stream: "REQUEST:request"
///   output_stream: "RELEVANCE:relevance"
///   node_options { [type.googleapis.com/mediapipe.RerankCalculatorOVOptions] { models_path: "./" } }
/// }
/// ```
pub struct Rank {
    model: Arc<EmbeddingModel>,
    max_allowed_chunks: usize,
    /// The computation in progress. Dropping it cancels it.
    running: Option<RerankRun>,
}

struct RerankRun {
    /// Timestamp of the request, at which its scores come out.
    time: Timestamp,
    handle: EmbeddingHandle,
    /// Range of the submitted texts that each document was cut into.
    pieces: Vec<Range<usize>>,
    tokens: u32,
    /// As [`RerankForm::asks_for_logits`](crate::payload::RerankForm::asks_for_logits).
    logits: Option<bool>,
    /// Memory for the numbers and for the answer.
    _claim: Claim,
}

/// The texts to compute for a request.
struct Pairs {
    pairs: Vec<Vec<Token>>,
    /// Range of the texts that each document was cut into.
    pieces: Vec<Range<usize>>,
}

/// The port handles of [`Rank`].
#[derive(Copy, Clone, Debug)]
pub struct RankPorts {
    request: In<RerankRequest>,
    relevance: Out<Relevance>,
    events: Events<EmbeddingOutcome>,
    model: Res<EmbeddingModel>,
}

impl Calculator for Rank {
    const NAME: &'static str = "RankCalculator";
    const DOC: &'static str = "Scores how well documents answer a query, or classifies texts, batched with those of all sessions of the same model.";
    const OPTION_NAMES: &'static [&'static str] = &[
        "mediapipe.RerankCalculatorOVOptions",
        "mediapipe.RerankCalculatorOptions",
    ];
    type Options = RankOptions;
    type Ports = RankPorts;

    fn contract(c: &mut Contract, options: &RankOptions) -> RankPorts {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        c.process_timestamp_bounds();
        c.run(Run::Offload("cpu"));
        let spec = options.spec(c);
        RankPorts {
            request: c.input("REQUEST"),
            relevance: c.output("RELEVANCE"),
            events: c.events(),
            model: c.resource("RERANK_NODE_RESOURCES", Some(spec)),
        }
    }

    fn open(options: &RankOptions, io: RankPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(io.model),
            max_allowed_chunks: options.node.max_allowed_chunks as usize,
            running: None,
        })
    }

    fn process(&mut self, io: RankPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(outcome) = cx.event(io.events) {
            let Some(running) = self.running.take() else {
                return Ok(Flow::Continue);
            };
            let numbers = outcome.map_err(llm::failed)?;
            let engine = self.model.engine();
            let relevance = running.relevance(&numbers, engine.head())?;
            cx.emit_at(io.relevance, running.time, relevance);
            cx.out().resume(io.request);
        }
        let known = cx.settled(io.request);
        if let Some(request) = cx.take(io.request) {
            cx.out().pause(io.request);
            engine::check_room(&self.model)?;
            self.check_classes(&request)?;
            let claim = match request.form.asks_for_logits() {
                Some(_) => {
                    claim_classes(request.documents.len(), &self.model.engine().head().labels)?
                }
                None => claim_room(0)?,
            };
            let Pairs { pairs, pieces } = self.pairs(&request, &cx.run().cancel)?;
            let count = request.documents.len();
            let field = |index| {
                let document = pieces.partition_point(|pieces| pieces.end <= index);
                request.form.field(document, count)
            };
            let (handle, tokens) = engine::submit(&self.model, pairs, io.events, cx, field)?;
            self.running = Some(RerankRun {
                time: known,
                handle,
                pieces,
                tokens,
                logits: request.form.asks_for_logits(),
                _claim: claim,
            });
        }
        match self.running {
            None if known >= Timestamp::MAX => return Ok(Flow::Stop),
            None => cx.out().bound_at_least(io.relevance, known.next()),
            Some(_) => {}
        }
        Ok(Flow::Continue)
    }

    fn waits_for(&self) -> Option<String> {
        let running = self.running.as_ref()?;
        Some(engine::waits_for(&self.model, &running.handle))
    }
}
register!(Rank);

/// Claims memory for the classes of this many texts and for the answer with them. The claim ends
/// when it is dropped.
///
/// # Errors
/// Those of [`claim_room`].
pub(crate) fn claim_classes(texts: usize, labels: &[String]) -> Result<Claim> {
    /// Bytes of a class beside its name: two numbers, and an entry in JSON that has room to grow.
    const BYTES_OF_EACH: usize = 80;
    let bytes = labels.iter().map(|label| label.len() + BYTES_OF_EACH).sum();
    claim_room(texts.saturating_mul(bytes))
}

impl RerankRun {
    /// Turns the numbers of its texts into scores or classes.
    fn relevance(&self, numbers: &[Vec<f32>], head: &Head) -> Result<Relevance> {
        let tokens = self.tokens;
        if let Some(logits) = self.logits {
            let of_piece = |piece: &Range<usize>| {
                let numbers = &numbers[piece.start];
                if logits {
                    head.logits(numbers)
                } else {
                    head.probabilities(numbers)
                }
            };
            let classes = Classes {
                labels: Arc::clone(&head.labels),
                numbers: self.pieces.iter().map(of_piece).collect(),
            };
            return Ok(Relevance {
                scores: Vec::new(),
                classes: Some(classes),
                tokens,
            });
        }
        let best = |pieces: &Range<usize>| {
            let scores = numbers[pieces.clone()].iter().map(|it| head.score(it));
            scores.fold(f32::MIN, f32::max)
        };
        let scores: Vec<f32> = self.pieces.iter().map(best).collect();
        if !scores.iter().all(|score| (0.0..=1.0).contains(score)) {
            return Err(Error::internal(
                "the model computed a score that is not between 0 and 1",
            ));
        }
        Ok(Relevance {
            scores,
            classes: None,
            tokens,
        })
    }
}

impl Rank {
    /// Refuses a request for scores if the model has more than two classes.
    fn check_classes(&self, request: &RerankRequest) -> Result<()> {
        let engine = self.model.engine();
        let head = engine.head();
        if request.form.asks_for_logits().is_some() || head.ranks() {
            return Ok(());
        }
        let count = head.labels.len();
        let message = format!(
            "the model tells {count} classes of texts apart, and does not rank: ask for classes"
        );
        Err(Error::invalid(message)
            .with_field("model")
            .with_code("invalid_value"))
    }

    /// Combines the query with each document, or with each piece of a long one.
    fn pairs(&self, request: &RerankRequest, cancel: &CancelToken) -> Result<Pairs> {
        let (query, texts) = request.form.field_names();
        self.check_chunks(texts, "before", request.documents.len())?;
        let engine = self.model.engine();
        let limit = engine::limit(&self.model, request.most_tokens)?;
        let of_document = |index| request.form.field(index, request.documents.len());
        if request.queries.is_empty() {
            let cut = request.truncates.then_some((limit, false));
            let texts = request.documents.iter().enumerate().map(|(index, text)| {
                let text = Prompt::Text(text.clone());
                engine::tokenize(&self.model, &text, cut, cancel, || of_document(index))
            });
            let pairs = texts.collect::<Result<Vec<_>>>()?;
            let pieces = (0..pairs.len()).map(|at| at..at + 1).collect();
            return Ok(Pairs { pairs, pieces });
        }
        let read = |text: &str, field: String| {
            let goes_on = || !cancel.is_cancelled();
            let read = engine.vocab().tokenize_while(text, false, false, &goes_on);
            read.map_err(|error| not_tokenized(error, Some(field)))
        };
        let count = request.queries.len();
        let field = |index: usize| match count {
            1 => query.to_owned(),
            _ => format!("{query}[{index}]"),
        };
        let mut queries = Vec::with_capacity(count);
        for (index, text) in request.queries.iter().enumerate() {
            let query = read(text, field(index))?;
            let around = engine.pairs().join(&query, &[]).len();
            if around >= limit {
                let message = format!(
                    "takes {around} of the {limit} tokens that the model reads, so no room is left for a document"
                );
                let error = invalid(field(index), message);
                return Err(error.with_code("context_length_exceeded"));
            }
            queries.push((query, around));
        }
        let most = match request.max_chunks_per_doc {
            _ if request.truncates => 1,
            most => most.map_or(usize::MAX, |most| most as usize),
        };
        // A pair to classify is never read in pieces. It is refused if it is too long.
        let is_whole = request.form.asks_for_logits().is_some() && !request.truncates;
        let whole = is_whole.then_some(usize::MAX);
        let (mut pairs, mut pieces) = (Vec::new(), Vec::new());
        // A single query applies to all documents.
        let documents = request.documents.iter().enumerate();
        for ((index, document), (query, around)) in documents.zip(queries.iter().cycle()) {
            let tokens = read(document, of_document(index))?;
            let begin = pairs.len();
            if tokens.is_empty() {
                pairs.push(engine.pairs().join(query, &[]));
            }
            let chunks = tokens.chunks(whole.unwrap_or(limit - around)).take(most);
            pairs.extend(chunks.map(|chunk| engine.pairs().join(query, chunk)));
            self.check_chunks(texts, "after", pairs.len())?;
            pieces.push(begin..pairs.len());
        }
        Ok(Pairs { pairs, pieces })
    }

    fn check_chunks(&self, texts: &str, when: &str, chunks: usize) -> Result<()> {
        let most = self.max_allowed_chunks;
        if chunks <= most {
            return Ok(());
        }
        let message = format!(
            "are {chunks} pieces {when} long ones are cut, but the graph allows {most} (max_allowed_chunks)"
        );
        Err(invalid(texts, message))
    }
}
