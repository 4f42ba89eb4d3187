//! The engine with a scripted model: joining and leaving, waiting, cancelling, credit, failures. A gate lets a test decide when a
//! step may go on.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use graphmill_llm::backend::scripted::{Reply, Script, ScriptedBackend, Then};
use graphmill_llm::{
    Engine, EngineSpec, EngineStatus, ErrorKind, FinishReason, GenerationRequest, SequenceHandle,
    StepOutput, SubmitError, Token, Vocab,
};

mod support;

fn spec() -> EngineSpec {
    EngineSpec::new("test.script.json")
}

/// An engine whose steps run freely.
fn engine(script: Script, spec: EngineSpec) -> Engine {
    let (engine, gate) = gated(script, spec);
    drop(gate);
    engine
}

/// An engine whose steps wait for the gate.
fn gated(script: Script, spec: EngineSpec) -> (Engine, Sender<()>) {
    let (gate, permits) = mpsc::channel::<()>();
    let wait = move |_: &ScriptedBackend| {
        permits.recv().ok(); // without a gate, steps run freely
    };
    (support::gated(script, spec, wait), gate)
}

fn replies(replies: &[(&str, &str, Then)]) -> Script {
    let reply = |(when, text, then): &(&str, &str, Then)| Reply {
        when: (*when).to_owned(),
        text: (*text).to_owned(),
        then: *then,
    };
    Script {
        replies: replies.iter().map(reply).collect(),
        ..Script::default()
    }
}

/// The prompt of a chat with one message.
fn chat(engine: &Engine, message: &str) -> Vec<Token> {
    let text = format!("<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n");
    engine.vocab().tokenize(&text, true, true).expect("short")
}

struct Generation {
    outputs: Receiver<StepOutput>,
    handle: SequenceHandle,
    vocab: Arc<dyn Vocab>,
}

impl Generation {
    fn start(
        engine: &Engine,
        prompt: Vec<Token>,
        adapt: impl FnOnce(&mut GenerationRequest),
    ) -> Result<Self, SubmitError> {
        let (sender, outputs) = mpsc::channel();
        let mut request = GenerationRequest::new(prompt, move |output| {
            sender.send(output).ok(); // a test that cancels drops the receiver
        });
        adapt(&mut request);
        Ok(Self {
            outputs,
            handle: engine.submit(request)?,
            vocab: engine.vocab(),
        })
    }

    fn chat(engine: &Engine, message: &str) -> Self {
        Self::start(engine, chat(engine, message), |_| {}).expect("accepted")
    }

    fn next(&self) -> StepOutput {
        self.outputs
            .recv_timeout(Duration::from_secs(20))
            .expect("an output")
    }

    /// Text and finish of the whole generation.
    fn finish(self) -> (String, FinishReason) {
        let mut text = Vec::new();
        loop {
            let output = self.next();
            output
                .tokens
                .iter()
                .for_each(|token| self.vocab.piece(*token, false, &mut text));
            if let Some(finish) = output.finish {
                return (String::from_utf8(text).expect("whole characters"), finish);
            }
        }
    }
}

fn eventually(engine: &Engine, what: &str, holds: impl Fn(&EngineStatus) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds(&engine.status()) {
        assert!(
            Instant::now() < deadline,
            "never {what}: {:?}",
            engine.status()
        );
        std::thread::yield_now();
    }
}

fn is_empty(status: &EngineStatus) -> bool {
    status.sequences_running == 0 && status.sequences_waiting == 0 && status.kv_cells_used == 0
}

fn stop(text: &str) -> (String, FinishReason) {
    (text.to_owned(), FinishReason::Stop)
}

#[test]
fn sequences_join_and_leave_between_steps() {
    let script = replies(&[
        ("long", "a long answer to a question", Then::End),
        ("short", "no", Then::End),
    ]);
    let (engine, gate) = gated(script, spec());
    let long = Generation::chat(&engine, "long");
    for _ in 0..5 {
        gate.send(()).expect("the engine runs");
        long.next();
    }
    let short = Generation::chat(&engine, "short");
    drop(gate);
    assert_eq!(short.finish(), stop("no"));
    assert_eq!(long.finish(), stop("g answer to a question"));
    // The short one rode along: each token of the long answer, and its end, took one step.
    assert_eq!(
        engine.status().steps,
        "a long answer to a question".len() as u64 + 1
    );
    assert!(is_empty(&engine.status()));
}

#[test]
fn a_prompt_joins_in_chunks() {
    let (engine, gate) = gated(
        replies(&[("", "ok", Then::End)]),
        EngineSpec {
            max_num_batched_tokens: 16,
            ..spec()
        },
    );
    let generation = Generation::chat(&engine, &"x".repeat(60));
    for _ in 0..2 {
        gate.send(()).expect("the engine runs");
    }
    eventually(&engine, "two chunks", |status| status.kv_cells_used == 32);
    drop(gate);
    assert_eq!(generation.finish(), stop("ok"));
}

#[test]
fn usage_counts_the_end_token() {
    let engine = engine(replies(&[("", "abc", Then::End)]), spec());
    let prompt = chat(&engine, "hello");
    let prompt_tokens = prompt.len() as u32;
    let generation = Generation::start(&engine, prompt, |_| {}).expect("accepted");
    let mut last = generation.next();
    while last.finish.is_none() {
        last = generation.next();
    }
    assert_eq!(
        (last.usage.prompt_tokens, last.usage.generated_tokens),
        (prompt_tokens, 4)
    );
    assert_eq!(last.tokens.len(), 0);
    assert_eq!(last.end_token, engine.vocab().eos());
}

#[test]
fn limits_end_a_generation() {
    let engine = engine(replies(&[("", "abcdef", Then::End)]), spec());
    let run = |adapt: fn(&mut GenerationRequest)| {
        Generation::start(&engine, chat(&engine, "hello"), adapt)
            .expect("accepted")
            .finish()
    };
    assert_eq!(
        run(|request| request.max_tokens = Some(3)),
        ("abc".to_owned(), FinishReason::Length)
    );
    assert_eq!(
        run(|request| request.stop_tokens = vec![Token::from(b'd')]),
        stop("abc")
    );
    let (text, finish) = run(|request| {
        request.ignore_eos = true;
        request.max_tokens = Some(8);
    });
    assert_eq!((text.as_str(), finish), ("abcdef", FinishReason::Length));
    let (text, _) = run(|request| request.min_tokens = 9);
    assert!(text.len() >= 9 && text.starts_with("abcdef"), "{text:?}");
}

#[test]
fn a_generation_without_limit_ends_with_the_context() {
    let script = Script {
        context: 64,
        ..Script::default()
    };
    let engine = engine(script, spec());
    let (text, finish) = Generation::start(&engine, vec![96; 40], |_| {})
        .expect("accepted")
        .finish();
    assert_eq!(text.len(), 24);
    assert_eq!(finish, FinishReason::Length);
}

#[test]
fn cancelling_frees_cells_while_queued_prefilling_and_decoding() {
    let script = replies(&[("", "again ", Then::Repeat)]);
    let spec = EngineSpec {
        max_num_seqs: 1,
        max_num_batched_tokens: 16,
        ..spec()
    };
    let (engine, gate) = gated(script, spec);
    let prefilling = Generation::chat(&engine, &"x".repeat(100));
    gate.send(()).expect("the engine runs");
    eventually(&engine, "one chunk", |status| status.kv_cells_used == 16);
    let queued = Generation::chat(&engine, "queued");
    assert_eq!(engine.status().sequences_waiting, 1);
    drop(queued.handle);
    drop(prefilling.handle);
    gate.send(()).expect("the engine runs");
    eventually(&engine, "empty after two cancellations", is_empty);

    let decoding = Generation::chat(&engine, "hello");
    drop(gate);
    decoding.next();
    decoding.next();
    assert!(engine.status().kv_cells_used > 0);
    drop(decoding.handle);
    eventually(&engine, "empty after the third", is_empty);
    assert!(
        decoding
            .outputs
            .iter()
            .all(|output| output.finish.is_none())
    );
}

#[test]
fn waiting_requests_run_in_order() {
    let (engine, gate) = gated(
        replies(&[]),
        EngineSpec {
            max_num_seqs: 1,
            ..spec()
        },
    );
    let (sender, finished) = mpsc::channel();
    let handles: Vec<SequenceHandle> = (0..6)
        .map(|number: usize| {
            let sender = sender.clone();
            let request =
                GenerationRequest::new(chat(&engine, "hello"), move |output: StepOutput| {
                    if output.finish.is_some() {
                        sender.send(number).ok(); // the test holds the receiver
                    }
                });
            engine.submit(request).expect("accepted")
        })
        .collect();
    drop(gate);
    assert_eq!(
        finished.iter().take(6).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5]
    );
    drop(handles);
}

#[test]
fn a_higher_priority_is_admitted_first() {
    let (engine, gate) = gated(
        replies(&[]),
        EngineSpec {
            max_num_seqs: 1,
            ..spec()
        },
    );
    let (sender, finished) = mpsc::channel();
    let running = Generation::chat(&engine, "first");
    eventually(&engine, "running", |status| status.sequences_running == 1);
    let handles: Vec<SequenceHandle> = [0, 5, -1, 5]
        .into_iter()
        .enumerate()
        .map(|(number, priority)| {
            let sender = sender.clone();
            let sink = move |output: StepOutput| {
                if output.finish.is_some() {
                    sender.send(number).ok(); // the test holds the receiver
                }
            };
            let mut request = GenerationRequest::new(chat(&engine, "hello"), sink);
            request.priority = priority;
            engine.submit(request).expect("accepted")
        })
        .collect();
    drop(gate);
    assert_eq!(finished.iter().take(4).collect::<Vec<_>>(), [1, 3, 0, 2]);
    drop((handles, running));
}

#[test]
fn a_request_that_waited_too_long_ends_with_the_numbers_of_the_queue() {
    let (engine, gate) = gated(
        replies(&[]),
        EngineSpec {
            max_num_seqs: 1,
            queue_timeout_ms: 1,
            ..spec()
        },
    );
    // A place is free at once: no wait, even if the step takes longer than the bound.
    let running = Generation::chat(&engine, "first");
    eventually(&engine, "running", |status| status.sequences_running == 1);
    let submitted = Instant::now();
    let waiting = [(), ()].map(|()| Generation::chat(&engine, "second"));
    while submitted.elapsed() < Duration::from_millis(10) {
        std::thread::yield_now();
    }
    gate.send(()).expect("the engine runs");
    for waiting in waiting {
        let FinishReason::Error(error) = waiting.finish().1 else {
            panic!("it should have ended with an error");
        };
        assert_eq!(error.kind, ErrorKind::ResourceExhausted);
        assert!(
            error.message.contains("queue_timeout_ms") && error.message.contains("running: 1"),
            "{}",
            error.message
        );
    }
    drop(gate);
    assert_eq!(running.finish(), stop("first"));
    assert!(is_empty(&engine.status()));
}

#[test]
fn an_idle_engine_ends_requests_that_nobody_lets_run() {
    let engine = engine(
        replies(&[]),
        EngineSpec {
            queue_timeout_ms: 1,
            ..spec()
        },
    );
    let without_credit = Generation::start(&engine, chat(&engine, "hello"), |request| {
        request.credits = 0;
    })
    .expect("accepted");
    let (_, finish) = without_credit.finish();
    assert!(matches!(finish, FinishReason::Error(_)), "{finish:?}");
    assert!(is_empty(&engine.status()));
}

#[test]
fn a_backend_without_work_is_told_to_rest_and_goes_on_after_it() {
    let (resting, rests) = mpsc::channel();
    let at_rest = move || {
        resting.send(()).ok(); // the test may have ended
    };
    let script = replies(&[("hi", "an answer", Then::End)]);
    let engine = support::watched(script, spec(), |_| {}, at_rest);
    let rests = || rests.recv_timeout(Duration::from_secs(20));
    rests().expect("nothing has come yet");
    for _ in 0..2 {
        let answer = Generation::chat(&engine, "hi").finish();
        assert_eq!(answer, stop("an answer"));
        rests().expect("nothing is left to do");
    }
}

#[test]
fn the_status_shows_how_steps_are_paced() {
    let script = Script {
        step_micros: 2_000,
        ..replies(&[])
    };
    let spec = EngineSpec {
        target_step_ms: 40,
        ..spec()
    };
    let engine = engine(script, spec);
    Generation::chat(&engine, "hello").finish();
    eventually(&engine, "idle", |status| status.idle);
    let status = engine.status();
    assert_eq!(status.step_target, Duration::from_millis(40));
    assert!(status.step_median >= Duration::from_millis(2));
    assert!(status.step_expected >= Duration::from_millis(1));
}

#[test]
fn a_sequence_without_credit_sits_out() {
    let engine = engine(
        replies(&[("slow", "abcdef", Then::End), ("fast", "xyz", Then::End)]),
        spec(),
    );
    let slow = Generation::start(&engine, chat(&engine, "slow"), |request| {
        request.credits = 2;
    })
    .expect("accepted");
    slow.next();
    slow.next();
    // Another one runs to its end meanwhile.
    assert_eq!(Generation::chat(&engine, "fast").finish(), stop("xyz"));
    eventually(&engine, "idle", |status| status.idle);
    assert!(slow.outputs.try_recv().is_err(), "an output without credit");
    assert_eq!(engine.status().sequences_running, 1);
    slow.handle.grant(1);
    assert_eq!(slow.next().tokens.as_slice(), [Token::from(b'c')]);
    slow.handle.grant(10);
    assert_eq!(slow.finish(), stop("def"));
}

#[test]
fn more_sequences_than_cells_take_turns_and_keep_their_texts() {
    let script = Script {
        cells: 400,
        ..Script::default()
    };
    let engine = engine(
        script,
        EngineSpec {
            max_num_batched_tokens: 64,
            ..spec()
        },
    );
    let message =
        |number: usize| format!("{number}: {}", "to be repeated word for word ".repeat(2));
    let generations: Vec<_> = (0..24)
        .map(|number| Generation::chat(&engine, &message(number)))
        .collect();
    for (number, generation) in generations.into_iter().enumerate() {
        assert_eq!(generation.finish(), stop(&message(number)));
    }
    assert!(engine.status().preemptions > 0);
    assert!(is_empty(&engine.status()));
}

#[test]
fn a_panicking_step_ends_its_batch_and_no_other_sequence() {
    let script = replies(&[
        ("bad", "x", Then::Panic),
        ("paused", "abcdef", Then::End),
        ("good", "yes", Then::End),
    ]);
    let engine = engine(script, spec());
    let paused = Generation::start(&engine, chat(&engine, "paused"), |request| {
        request.credits = 3;
    })
    .expect("accepted");
    (0..3).for_each(|_| drop(paused.next()));
    let (text, finish) = Generation::chat(&engine, "bad").finish();
    assert_eq!(text, "x");
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.kind, ErrorKind::Internal);
    assert_eq!(error.message, "the step panicked: scripted panic");
    assert_eq!(engine.status().failed_steps, 1);
    // The cache was cleared: the paused sequence is computed again and goes on where it was.
    paused.handle.grant(10);
    assert_eq!(paused.finish(), stop("def"));
    assert_eq!(Generation::chat(&engine, "good").finish(), stop("yes"));
    assert!(is_empty(&engine.status()));
}

#[test]
fn a_failing_step_reports_the_backends_message() {
    let script = Script {
        fail_steps: vec![2],
        ..replies(&[("", "abc", Then::End)])
    };
    let engine = engine(script, spec());
    let (text, finish) = Generation::chat(&engine, "hello").finish();
    assert_eq!(text, "a");
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.message, "scripted failure at step 2");
    assert_eq!(Generation::chat(&engine, "hello").finish(), stop("abc"));
}

#[test]
fn requests_that_cannot_run_are_refused_with_the_numbers() {
    let script = Script {
        context: 100,
        ..Script::default()
    };
    let (engine, _gate) = gated(
        script,
        EngineSpec {
            max_waiting: 2,
            max_num_seqs: 1,
            ..spec()
        },
    );
    let submit = |prompt: Vec<Token>| {
        Generation::start(&engine, prompt, |_| {}).map(|generation| generation.handle)
    };
    assert_eq!(
        submit(Vec::new()).expect_err("empty"),
        SubmitError::EmptyPrompt
    );
    let too_long = SubmitError::PromptTooLong {
        n_prompt_tokens: 100,
        n_ctx: 100,
    };
    assert_eq!(submit(vec![65; 100]).expect_err("too long"), too_long);
    let unknown = SubmitError::InvalidToken {
        token: 9_999,
        position: 1,
        n_vocab: 259,
    };
    assert_eq!(submit(vec![65, 9_999]).expect_err("unknown token"), unknown);
    let out_of_range =
        Generation::start(&engine, vec![65], |request| request.sampling.top_p = 1.5).map(|_| ());
    assert!(matches!(
        out_of_range,
        Err(SubmitError::InvalidParameter { field: "top_p", .. })
    ));

    let _running = submit(vec![65; 99]).expect("fits exactly");
    eventually(&engine, "running", |status| status.sequences_running == 1);
    let _waiting = [
        submit(vec![65]).expect("waits"),
        submit(vec![65]).expect("waits"),
    ];
    assert_eq!(
        submit(vec![65]).expect_err("full"),
        SubmitError::QueueFull {
            waiting: 2,
            limit: 2
        }
    );
}

#[test]
fn an_unsplit_prompt_must_fit_a_batch() {
    let spec = EngineSpec {
        dynamic_split_fuse: false,
        max_num_batched_tokens: 32,
        ..spec()
    };
    let engine = engine(Script::default(), spec);
    let error = Generation::start(&engine, vec![65; 33], |_| {})
        .map(|_| ())
        .expect_err("too long");
    assert_eq!(
        error,
        SubmitError::PromptExceedsBatch {
            n_prompt_tokens: 33,
            max_num_batched_tokens: 32
        }
    );
    let (text, _) = Generation::start(&engine, vec![65; 32], |request| {
        request.max_tokens = Some(3);
    })
    .expect("fits")
    .finish();
    assert_eq!(text, "BCD");
}

#[test]
fn a_receiver_that_panics_harms_nobody() {
    let engine = engine(replies(&[("", "fine", Then::End)]), spec());
    let request = GenerationRequest::new(chat(&engine, "hello"), |_: StepOutput| {
        panic!("a bug in a receiver")
    });
    let _bad = engine.submit(request).expect("accepted");
    assert_eq!(Generation::chat(&engine, "hello").finish(), stop("fine"));
}

#[test]
fn dropping_the_engine_ends_what_runs() {
    let (engine, gate) = gated(replies(&[("", "x", Then::Repeat)]), spec());
    let generation = Generation::chat(&engine, "hello");
    drop(gate);
    generation.next();
    drop(engine);
    let (_, finish) = generation.finish();
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.kind, ErrorKind::Unavailable);
}
