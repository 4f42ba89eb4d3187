//! The embedding engine on a backend that a test holds between steps.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::embed::{
    EmbeddingBackend, EmbeddingCapacity, EmbeddingEngine, EmbeddingError, EmbeddingHandle,
    EmbeddingRefusal, EmbeddingRequest, EmbeddingSpec, EmbeddingTask, PairForm, Pooling,
};
use graphmill_llm::{ErrorKind, LlmEngineSpec, LlmEngineState, SupervisedEngine, Tenant, Token};

/// Tells the test what each step computes, and waits for its word. A text's numbers are its length
/// and its first token; the token [`POISON`] fails the batch that has it, and [`PANIC`] panics.
struct Gated {
    batches: Sender<Vec<Vec<Token>>>,
    go: Receiver<()>,
}

const POISON: Token = 66;
const PANIC: Token = 67;

impl EmbeddingBackend for Gated {
    fn capacity(&self) -> EmbeddingCapacity {
        EmbeddingCapacity {
            context_length: 20,
            batch_tokens: 6,
            max_sequences: 4,
            width: 2,
            pooling: Pooling::Mean,
        }
    }

    fn compute(&mut self, texts: &[&[Token]], out: &mut Vec<f32>) -> Result<(), String> {
        self.batches
            .send(texts.iter().map(|text| text.to_vec()).collect())
            .map_err(|error| error.to_string())?;
        self.go.recv().map_err(|error| error.to_string())?;
        for text in texts {
            assert!(!text.contains(&PANIC), "a text that panics");
            if text.contains(&POISON) {
                return Err("poison".to_owned());
            }
            out.extend([text.len() as f32, text[0] as f32]);
        }
        Ok(())
    }
}

type Outcome = Result<Vec<Vec<f32>>, EmbeddingError>;

struct Bench {
    engine: EmbeddingEngine,
    batches: Receiver<Vec<Vec<Token>>>,
    go: Sender<()>,
    outcomes: Receiver<(&'static str, Outcome)>,
    results: Sender<(&'static str, Outcome)>,
}

impl Bench {
    fn new(max_waiting: u32) -> Self {
        let (to_test, batches) = mpsc::channel();
        let (go, to_wait) = mpsc::channel();
        let (results, outcomes) = mpsc::channel();
        let spec = EmbeddingSpec {
            max_waiting,
            ..EmbeddingSpec::new("model.gguf", EmbeddingTask::Embed(None))
        };
        let open = || {
            let (_, vocab) =
                ScriptedBackend::new(Script::default(), &LlmEngineSpec::new("m.script.json"));
            let backend = Gated {
                batches: to_test,
                go: to_wait,
            };
            let pairs = PairForm::around(vec![], vec![], vec![]);
            Ok((backend, vocab, pairs))
        };
        Self {
            engine: EmbeddingEngine::with_backend(spec, open).expect("a valid spec"),
            batches,
            go,
            outcomes,
            results,
        }
    }

    fn try_submit(
        &self,
        name: &'static str,
        texts: &[&[Token]],
    ) -> Result<EmbeddingHandle, EmbeddingRefusal> {
        self.engine.submit(self.request(name, texts))
    }

    fn request(&self, name: &'static str, texts: &[&[Token]]) -> EmbeddingRequest {
        let results = self.results.clone();
        let texts = texts.iter().map(|text| text.to_vec()).collect();
        EmbeddingRequest::new(texts, move |outcome| {
            results.send((name, outcome)).expect("the test listens");
        })
    }

    fn submit_for(&self, tenant: u64, name: &'static str, texts: &[&[Token]]) -> EmbeddingHandle {
        let mut request = self.request(name, texts);
        request.tenant = Some(Tenant {
            number: tenant,
            weight: NonZero::<u32>::MIN,
            places: 1,
        });
        self.engine.submit(request).expect("a good request")
    }

    fn submit(&self, name: &'static str, texts: &[&[Token]]) -> EmbeddingHandle {
        self.try_submit(name, texts).expect("a good request")
    }

    /// What the step that waits computes.
    fn step(&self) -> Vec<Vec<Token>> {
        self.batches.recv().expect("a step")
    }

    fn go(&self) {
        self.go.send(()).expect("the engine waits");
    }

    fn outcome(&self) -> (&'static str, Outcome) {
        self.outcomes.recv().expect("an outcome")
    }
}

#[test]
fn requests_share_batches_in_turn() {
    let bench = Bench::new(9);
    let _first = bench.submit("first", &[&[1, 1]]);
    assert_eq!(bench.step(), [[1, 1]]);
    // While that is computed, a long request comes, and then a short one.
    let _long = bench.submit("long", &[&[2, 2], &[3, 3], &[4, 4], &[5]]);
    let _short = bench.submit("short", &[&[6, 6]]);
    bench.go();
    assert_eq!(bench.outcome(), ("first", Ok(vec![vec![2.0, 1.0]])));
    assert_eq!(bench.step(), [[2, 2], [3, 3], [6, 6]]);
    bench.go();
    assert_eq!(bench.outcome(), ("short", Ok(vec![vec![2.0, 6.0]])));
    assert_eq!(bench.step(), [vec![4, 4], vec![5]]);
    bench.go();
    let numbers = [[2.0, 2.0], [2.0, 3.0], [2.0, 4.0], [1.0, 5.0]].map(|row| row.to_vec());
    assert_eq!(bench.outcome(), ("long", Ok(numbers.to_vec())));
    let measured = bench.engine.measurements();
    assert_eq!(measured.finished[0], ("done", 3));
    assert_eq!(measured.step_texts.sum as u32, 6);
}

#[test]
fn tenants_take_turns_however_many_requests_each_has() {
    let bench = Bench::new(99);
    // Each text fills a batch.
    let text: &[Token] = &[7; 6];
    let _many: Vec<_> = (0..40)
        .map(|_| bench.submit_for(1, "many", &[text, text]))
        .collect();
    bench.step();
    let _few = bench.submit_for(2, "few", &[&[6; 6], &[6; 6]]);
    let mut steps = 0;
    while !bench.outcomes.try_iter().any(|(name, _)| name == "few") {
        bench.go();
        bench.step();
        steps += 1;
        assert!(steps <= 6, "every other step is for it");
    }
    drop(bench.go); // the step that waits fails
}

#[test]
fn a_single_text_comes_right_after_those_that_others_have_thousands_of() {
    let bench = Bench::new(9);
    // Each fills a batch.
    let text = [7; 6];
    let burst: Vec<&[Token]> = vec![&text; 2_048];
    let _burst = ["one", "two"].map(|name| bench.submit(name, &burst));
    bench.step();
    let _single = bench.submit("single", &[&[6, 6]]);
    let mut steps = 0;
    loop {
        bench.go();
        // By then the step before is over.
        bench.step();
        if let Ok(outcome) = bench.outcomes.try_recv() {
            assert_eq!(outcome, ("single", Ok(vec![vec![2.0, 6.0]])));
            break;
        }
        steps += 1;
        assert!(steps <= 3, "each of the others has had its turn");
    }
    assert!(bench.engine.check_room().is_ok());
    drop(bench.go); // the step that waits fails
}

#[test]
fn a_batch_that_fails_or_panics_ends_its_requests_and_no_others() {
    for (bad, message) in [(POISON, "poison"), (PANIC, "panicked")] {
        let bench = Bench::new(9);
        let _bad = bench.submit("bad", &[&[bad; 6]]);
        bench.step();
        let _good = bench.submit("good", &[&[1]]);
        bench.go();
        let (name, outcome) = bench.outcome();
        let error = outcome.expect_err("it fails");
        assert_eq!((name, error.kind), ("bad", ErrorKind::Internal));
        assert!(error.message.contains(message), "{}", error.message);
        bench.step();
        bench.go();
        assert_eq!(bench.outcome(), ("good", Ok(vec![vec![1.0, 1.0]])));
        assert_eq!(bench.engine.status().failed_steps, 1);
    }
}

#[test]
fn a_dropped_handle_takes_the_request_out_of_the_queue() {
    let bench = Bench::new(9);
    let _first = bench.submit("first", &[&[1]]);
    bench.step();
    let dropped = bench.submit("dropped", &[&[2]]);
    let _last = bench.submit("last", &[&[3]]);
    drop(dropped);
    bench.go();
    assert_eq!(bench.outcome().0, "first");
    assert_eq!(bench.step(), [[3]]);
    bench.go();
    assert_eq!(bench.outcome().0, "last");
    assert_eq!(bench.engine.measurements().finished[2], ("cancelled", 1));
    assert_eq!(bench.engine.status().requests, 0);
}

#[test]
fn what_cannot_be_computed_is_refused() {
    let bench = Bench::new(1);
    let refusal = |texts: &[&[Token]]| bench.try_submit("bad", texts).expect_err("refused");
    assert_eq!(refusal(&[]), EmbeddingRefusal::NoText);
    assert_eq!(
        refusal(&[&[1], &[]]),
        EmbeddingRefusal::EmptyText { index: 1 }
    );
    assert_eq!(
        refusal(&[&[1; 21]]).to_string(),
        "text 0 has 21 tokens, and the model takes at most 20"
    );
    assert!(matches!(
        refusal(&[&[1], &[2, -1]]),
        EmbeddingRefusal::InvalidToken {
            index: 1,
            token: -1,
            position: 1,
            ..
        }
    ));
    let _first = bench.submit("first", &[&[1; 20]]);
    assert!(matches!(
        refusal(&[&[1]]),
        EmbeddingRefusal::QueueFull {
            waiting: 1,
            limit: 1
        }
    ));
    assert_eq!(bench.step(), [[1; 20]]);
    bench.go();
    assert_eq!(bench.outcome(), ("first", Ok(vec![vec![20.0, 1.0]])));
}

#[test]
fn requests_that_wait_when_the_engine_goes_end_with_an_error() {
    let bench = Bench::new(9);
    let _first = bench.submit("first", &[&[1]]);
    bench.step();
    let _second = bench.submit("second", &[&[POISON]]);
    let (engine, go) = (bench.engine, bench.go);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(engine));
        go.send(()).expect("the engine waits");
        drop(go); // a step that begins before the engine is told to stop fails
    });
    let mut ends: Vec<_> = bench.outcomes.try_iter().collect();
    ends.sort_by_key(|(name, _)| *name);
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[0], ("first", Ok(vec![vec![1.0, 1.0]])));
    assert!(ends[1].1.is_err());
}

#[test]
fn pairs_are_joined_as_the_model_reads_them() {
    let (_, vocab) = ScriptedBackend::new(Script::default(), &LlmEngineSpec::new("m.script.json"));
    let vocab: Arc<_> = vocab;
    let around = PairForm::around(vec![100], vec![101], vec![102]);
    assert_eq!(around.join(&[1, 2], &[3]), [100, 1, 2, 101, 3, 102]);
    let form = PairForm::from_template(&*vocab, "D:{document} Q:{query}!").expect("short");
    let joined = form.expect("both are named").join(&[1], &[2]);
    let spelled: Vec<u8> = joined
        .iter()
        .flat_map(|token| {
            let mut piece = Vec::new();
            vocab.piece(*token, true, &mut piece);
            piece
        })
        .collect();
    assert_eq!(spelled, b"D:\x02 Q:\x01!");
    assert_eq!(PairForm::from_template(&*vocab, "{query}"), Ok(None));
}

#[test]
fn an_engine_that_hangs_is_given_up_with_all_that_wait_for_it() {
    let (to_test, batches) = mpsc::channel();
    let (go, to_wait) = mpsc::channel();
    let spec = EmbeddingSpec {
        step_timeout_ms: 50,
        ..EmbeddingSpec::new("model.gguf", EmbeddingTask::Embed(None))
    };
    let open = || {
        let (_, vocab) =
            ScriptedBackend::new(Script::default(), &LlmEngineSpec::new("m.script.json"));
        let backend = Gated {
            batches: to_test,
            go: to_wait,
        };
        Ok((backend, vocab, PairForm::around(vec![], vec![], vec![])))
    };
    let engine = EmbeddingEngine::with_backend(spec, open).expect("a valid spec");
    let engine = SupervisedEngine::<EmbeddingEngine>::once(engine).expect("a thread");
    let (sender, outcomes) = mpsc::channel();
    let submit = |name: &'static str| {
        let sender = sender.clone();
        let request = EmbeddingRequest::new(vec![vec![1, 1]], move |outcome| {
            sender.send((name, outcome)).expect("the test listens");
        });
        engine.current().submit(request)
    };
    let hangs = submit("hangs").expect("a good request");
    batches.recv().expect("a step");
    let waits = submit("waits");
    for _ in 0..=usize::from(waits.is_ok()) {
        let (_, outcome) = outcomes.recv().expect("an outcome");
        let error = outcome.expect_err("it hangs");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("step_timeout"), "{error}");
    }
    assert!(matches!(submit("late"), Err(EmbeddingRefusal::Failed(_))));
    while engine.health().state != LlmEngineState::Failed {
        std::thread::yield_now();
    }
    // What it computes after all is nobody's.
    drop(go);
    drop((hangs, waits, engine, sender));
    assert!(outcomes.recv().is_err());
}
