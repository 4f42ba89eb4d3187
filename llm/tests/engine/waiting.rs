//! Sequences that wait: for a place, for cells, for credit, and an engine that has nothing to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use graphmill_llm::backend::scripted::{Script, ScriptedBackend, Then};
use graphmill_llm::{
    ErrorKind, FinishReason, GenerationRequest, LlmEngineSpec, SequenceHandle, Standing,
    StepOutput, Token,
};

use super::{Generation, chat, engine, eventually, gated, is_empty, replies, spec, stop};
use crate::support;

#[test]
fn cancelling_frees_cells_while_queued_prefilling_and_decoding() {
    let script = replies(&[("", "again ", Then::Repeat)]);
    let spec = LlmEngineSpec {
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
    let prefill = chat(&engine, "hello").len().div_ceil(16);
    for _ in 0..=prefill {
        gate.send(()).expect("the engine runs");
    }
    decoding.next();
    decoding.next();
    assert!(engine.status().kv_cells_used > 0);
    drop(decoding.handle);
    drop(gate);
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
        LlmEngineSpec {
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
        LlmEngineSpec {
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

/// A clock that moves when a test says so.
#[derive(Clone)]
struct Clock {
    begun: Instant,
    passed_ms: Arc<AtomicU64>,
}

impl Clock {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            passed_ms: Arc::default(),
        }
    }

    fn pass(&self, time: Duration) {
        let ms = time.as_millis() as u64;
        self.passed_ms.fetch_add(ms, Ordering::Relaxed);
    }

    fn now(&self) -> Instant {
        self.begun + Duration::from_millis(self.passed_ms.load(Ordering::Relaxed))
    }
}

#[test]
fn a_request_that_waited_too_long_ends_with_the_numbers_of_the_queue() {
    let spec = LlmEngineSpec {
        max_num_seqs: 1,
        queue_timeout_ms: 600_000,
        ..spec()
    };
    let clock = Clock::new();
    let (gate, permits) = mpsc::channel::<()>();
    let wait = move |_: &ScriptedBackend| {
        permits.recv().ok(); // without a gate, steps run freely
    };
    let told = clock.clone();
    let engine = support::watched(replies(&[]), spec, wait, || {}, move || told.now());
    // A place is free at once: no wait, even if the step takes longer than the bound.
    let running = Generation::chat(&engine, "first");
    eventually(&engine, "running", |status| status.sequences_running == 1);
    let waiting = [(), ()].map(|()| Generation::chat(&engine, "second"));
    clock.pass(Duration::from_hours(1));
    gate.send(()).expect("the engine runs");
    for waiting in waiting {
        let end = waiting.next();
        let hours = Duration::from_mins(30)..=Duration::from_hours(1);
        assert!(hours.contains(&end.usage.queued), "{end:?}");
        let Some(FinishReason::Error(error)) = end.finish else {
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
        LlmEngineSpec {
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
    let engine = support::watched(script, spec(), |_| {}, at_rest, Instant::now);
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
    let spec = LlmEngineSpec {
        target_step_ms: 40,
        ..spec()
    };
    let clock = Clock::new();
    let told = clock.clone();
    let step = move |_: &ScriptedBackend| clock.pass(Duration::from_millis(2));
    let engine = support::watched(replies(&[]), spec, step, || {}, move || told.now());
    Generation::chat(&engine, "hello").finish();
    eventually(&engine, "idle", |status| status.idle);
    let status = engine.status();
    assert_eq!(status.step.target, Duration::from_millis(40));
    assert!(status.step.median >= Duration::from_millis(2));
    assert!(status.step.expected >= Duration::from_millis(1));
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
fn more_sequences_than_cells_preempt_each_other_and_keep_their_texts() {
    let script = Script {
        cells: 400,
        ..Script::default()
    };
    let engine = engine(
        script,
        LlmEngineSpec {
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

/// Waits until a sequence stands there.
#[track_caller]
fn until_stands(handle: &SequenceHandle, expected: Option<Standing>) {
    let begun = Instant::now();
    while handle.standing() != expected {
        let found = handle.standing();
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it stands at {found:?}, and {expected:?} was expected"
        );
        std::thread::yield_now();
    }
}

#[test]
fn sequences_tell_where_they_stand() {
    let spec = LlmEngineSpec {
        max_num_seqs: 1,
        max_num_batched_tokens: 16,
        ..spec()
    };
    let (engine, gate) = gated(replies(&[("", "again ", Then::Repeat)]), spec);
    let prompt = chat(&engine, &"x".repeat(20));
    let length = prompt.len() as u32;
    let limited = |request: &mut GenerationRequest| request.max_tokens = Some(1_200);
    let first = Generation::start(&engine, prompt, limited).expect("accepted");
    let prefills = |computed| Standing::Prefills {
        slot: 0,
        computed,
        prompt: length,
    };
    until_stands(&first.handle, Some(prefills(0)));
    // While a step is computed nothing is taken in.
    let second = Generation::start(&engine, chat(&engine, "b"), limited).expect("accepted");
    let third = Generation::start(&engine, chat(&engine, "c"), limited).expect("accepted");
    let queued = |place| {
        let preempted = false;
        Some(Standing::Queued { place, preempted })
    };
    assert_eq!(second.handle.standing(), queued(1));
    assert_eq!(third.handle.standing(), queued(2));
    gate.send(()).expect("the engine runs");
    until_stands(&first.handle, Some(prefills(16)));
    assert_eq!(second.handle.standing(), queued(1));
    assert_eq!(third.handle.standing(), queued(2));
    let chunks = (length - 1) / 16;
    for _ in 0..chunks + 2 {
        gate.send(()).expect("the engine runs");
    }
    let generates = |generated| Standing::Generates {
        slot: 0,
        generated,
        limit: 1_200,
    };
    until_stands(&first.handle, Some(generates(3)));
    drop(second.handle);
    gate.send(()).expect("the engine runs");
    until_stands(&first.handle, Some(generates(4)));
    assert_eq!(third.handle.standing(), queued(1));
    drop(first.handle);
    gate.send(()).expect("the engine runs");
    let runs = |standing: Option<Standing>| matches!(standing, Some(Standing::Prefills { .. }));
    eventually(&engine, "the third runs", |_| runs(third.handle.standing()));
}

#[test]
fn what_a_sequence_waits_for_its_slot_is_counted_before_and_between_its_tokens() {
    const STEP: Duration = Duration::from_secs(1);
    let script = Script {
        cells: 84,
        ..replies(&[("", "again ", Then::Repeat)])
    };
    let clock = Clock::new();
    // Once a permit is taken the step has begun.
    let (gate, permits) = mpsc::sync_channel::<()>(0);
    let told = clock.clone();
    let step = {
        let clock = clock.clone();
        move |_: &ScriptedBackend| {
            permits.recv().ok(); // without a gate, steps run freely
            clock.pass(STEP);
        }
    };
    let engine = support::watched(script, spec(), step, || {}, move || told.now());
    let start = |text: &str, tokens| {
        let limited = |request: &mut GenerationRequest| request.max_tokens = Some(tokens);
        Generation::start(&engine, chat(&engine, text), limited).expect("accepted")
    };
    let first = start("a", 60);
    let second = start("b", 40);
    let preempted = Some(Standing::Queued {
        place: 1,
        preempted: true,
    });
    while second.handle.standing() != preempted {
        gate.send(()).expect("the engine runs");
    }
    let third = start("c", 1);
    gate.send(()).expect("the engine runs");
    gate.send(()).expect("the engine runs");
    let words = third.handle.standing().expect("it waits").to_string();
    assert_eq!(words, "2nd in its queue");
    let waited = Arc::clone(third.handle.slot_wait());
    assert!(waited.until(clock.now()) >= STEP);
    drop(third.handle);
    drop(gate);
    first.finish();

    let mut last: Option<StepOutput> = None;
    let mut waits = Vec::new();
    loop {
        let output = second.next();
        if let Some(last) = &last {
            let wait = output.usage.queued.saturating_sub(last.usage.queued);
            let computed = output.at.duration_since(last.at).saturating_sub(wait);
            assert_eq!(computed, STEP, "{last:?} {output:?}");
            waits.extend((wait > Duration::ZERO).then_some(wait));
        }
        if output.finish.is_some() {
            break;
        }
        last = Some(output);
    }
    assert!(
        matches!(waits[..], [wait] if wait > 3 * STEP),
        "one wait of several steps: {waits:?}"
    );
    let over = waited.until(clock.now());
    clock.pass(STEP);
    assert_eq!(waited.until(clock.now()), over, "it was cancelled");
    // As the metric counts the first admissions alone.
    assert_eq!(engine.measurements().queue_seconds.count, 2);
}

#[test]
fn a_sequence_that_has_ended_stands_nowhere() {
    let engine = engine(replies(&[("", "ok", Then::End)]), spec());
    let generation = Generation::chat(&engine, "hello");
    while generation.next().finish.is_none() {}
    until_stands(&generation.handle, None);
}
