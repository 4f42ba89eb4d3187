//! Requests of many sequences beside requests of one, and who comes into the queue.

use std::sync::Arc;

use graphmill_llm::backend::scripted::{Script, Then};
use graphmill_llm::{Entry, GenerationRequest, LlmEngine, LlmEngineSpec, RequestId, SubmitError};

use super::{Generation, chat, engine, eventually, gated, is_empty, replies, spec, stop};

/// A sequence of a request.
fn part(engine: &LlmEngine, request: RequestId, message: &str) -> Generation {
    let prompt = chat(engine, message);
    Generation::start(engine, prompt, |part| part.request = request).expect("accepted")
}

fn places(max_num_seqs: u32) -> LlmEngineSpec {
    LlmEngineSpec {
        max_num_seqs,
        ..spec()
    }
}

#[test]
fn a_request_that_has_all_places_gives_one_up_and_keeps_its_texts() {
    for kv_unified in [true, false] {
        let script = Script {
            replies: replies(&[("endless", "on and on ", Then::Repeat)]).replies,
            ..Script::default()
        };
        let mut spec = places(4);
        spec.plugin_config.kv_unified = Some(kv_unified);
        let (engine, gate) = gated(script, spec);
        let many = RequestId::new();
        let message = |number: usize| format!("{number}: {}", "word for word ".repeat(9));
        let burst: Vec<_> = (0..12)
            .map(|number| part(&engine, many, &message(number)))
            .collect();
        for _ in 0..40 {
            gate.send(()).expect("the engine runs");
        }
        eventually(&engine, "four run", |status| status.sequences_running == 4);
        let one = Generation::chat(&engine, "alone");
        drop(gate);
        assert_eq!(one.finish(), stop("alone"));
        for (number, generation) in burst.into_iter().enumerate() {
            assert_eq!(generation.finish(), stop(&message(number)));
        }
        assert!(is_empty(&engine.status()));
    }
}

#[test]
fn a_request_is_answered_while_those_that_fill_all_places_never_end() {
    let script = replies(&[("brief", "a word", Then::End), ("", "on ", Then::Repeat)]);
    let engine = engine(script, places(4));
    let (first, second) = (RequestId::new(), RequestId::new());
    let burst: Vec<_> = (0..40)
        .map(|number| part(&engine, if number % 2 == 0 { first } else { second }, "go"))
        .collect();
    eventually(&engine, "four run", |status| status.sequences_running == 4);
    for _ in 0..5 {
        assert_eq!(Generation::chat(&engine, "brief").finish(), stop("a word"));
    }
    drop(burst);
    eventually(&engine, "empty", is_empty);
}

#[test]
fn a_place_is_had_before_the_prompt_is_made_and_given_back_without_it() {
    let spec = LlmEngineSpec {
        max_waiting: 2,
        ..places(1)
    };
    let (engine, gate) = gated(replies(&[]), spec);
    let running = Generation::chat(&engine, "first");
    eventually(&engine, "running", |status| status.sequences_running == 1);
    let [one, other] = [(); 2].map(|()| engine.reserve(0, None).expect("a place"));
    let status = engine.status();
    assert_eq!(
        (status.requests_preparing, status.sequences_waiting),
        (2, 0)
    );
    let full = |refused: Result<_, SubmitError>| {
        assert!(matches!(
            refused,
            Err(SubmitError::QueueFull {
                waiting: 2,
                limit: 2
            })
        ));
    };
    full(engine.reserve(0, None).map(drop));
    full(Generation::start(&engine, chat(&engine, "open"), |_| {}).map(drop));
    assert_eq!(engine.status().refused, 2);
    drop(one);
    let one = engine
        .reserve(0, None)
        .expect("the place that was given back");
    // Once it is used it is used.
    let one = Arc::new(one);
    let enter = |request: &mut GenerationRequest| request.entry = Entry::Reserved(Arc::clone(&one));
    let with_place = Generation::start(&engine, chat(&engine, "second"), enter).expect("accepted");
    full(Generation::start(&engine, chat(&engine, "third"), enter).map(drop));
    drop(one);
    let status = engine.status();
    assert_eq!(
        (status.requests_preparing, status.sequences_waiting),
        (1, 1)
    );
    // Whoever has begun is not refused.
    let follower = Generation::start(&engine, chat(&engine, "fourth"), |request| {
        request.entry = Entry::Follows;
    });
    let follower = follower.expect("accepted");
    drop((gate, other));
    for (generation, text) in [
        (running, "first"),
        (with_place, "second"),
        (follower, "fourth"),
    ] {
        assert_eq!(generation.finish(), stop(text));
    }
    let status = engine.status();
    assert!(is_empty(&status) && status.requests_preparing == 0);
}

#[test]
fn a_place_outlives_its_engine_without_harm() {
    let engine = engine(replies(&[]), spec());
    let place = Arc::new(engine.reserve(0, None).expect("a place"));
    drop(engine);
    let other = super::engine(replies(&[]), spec());
    // It is no place in the queue of another engine, which has room.
    let generation = Generation::start(&other, chat(&other, "hello"), |request| {
        request.entry = Entry::Reserved(place);
    });
    assert_eq!(generation.expect("accepted").finish(), stop("hello"));
}

#[test]
fn priorities_have_bounds_and_their_extremes_do_no_harm() {
    let narrow = engine(replies(&[]), spec());
    for priority in [-11, 11, i32::MIN, i32::MAX] {
        let refused = Generation::start(&narrow, chat(&narrow, "hello"), |request| {
            request.priority = priority;
        });
        let Err(SubmitError::InvalidParameter { field, message }) = refused.map(drop) else {
            panic!("{priority} is accepted");
        };
        assert_eq!(field, "priority");
        assert!(message.contains("between -10 and 10"), "{message}");
        assert!(narrow.reserve(priority, None).is_err());
    }
    let wide = LlmEngineSpec {
        min_priority: i32::MIN,
        max_priority: i32::MAX,
        priority_aging_ms: u32::MAX,
        ..places(1)
    };
    let wide = engine(replies(&[]), wide);
    let generations = [i32::MIN, i32::MAX, 0, i32::MAX, i32::MIN].map(|priority| {
        Generation::start(&wide, chat(&wide, "hello"), |request| {
            request.priority = priority;
        })
    });
    for generation in generations {
        assert_eq!(generation.expect("accepted").finish(), stop("hello"));
    }
}
