//! Waits for slots, in the counts of a request.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use graphmill_calculators::payload::{Account, Tally};
use graphmill_engine::testing::Harness;
use graphmill_llm::Tenant;
use serde_json::json;

use super::{Chat, GRAPH};

/// Starts a chat of a tenant, and returns its counts, too.
fn start(chat: &Chat, tenant: u64, text: &str) -> (Harness, Arc<Tally>) {
    let tally = Arc::<Tally>::default();
    let account = Account {
        tally: Arc::clone(&tally),
        tenant: Some(Tenant {
            number: tenant,
            weight: NonZeroU32::MIN,
            places: 1,
        }),
        ..Account::default()
    };
    let harness = chat
        .harness()
        .request(move |cx| cx.extension = Some(Arc::new(account)));
    let request = json!({ "model": "m", "stream": true,
        "messages": [{ "role": "user", "content": text }] });
    let (harness, _) = Chat::open_in(harness, "/v3/chat/completions", &request);
    (harness, tally)
}

#[test]
fn a_request_that_ends_in_the_queue_has_waited_and_nothing_else() {
    let script = json!({ "step_micros": 1000, "context": 60_000, "cells": 200_000,
        "replies": [{ "text": "on and on ", "then": "repeat" }] });
    let chat = Chat::with_engine(GRAPH, &script, |engine| {
        engine.max_num_seqs = 1;
        engine.queue_timeout_ms = 1;
    });
    let (mut kept, tally) = start(&chat, 1, "go");
    kept.block_until(|_| tally.read().generated > 0);
    let (mut queued, tally) = start(&chat, 2, "go");
    while !queued.ended() {
        kept.settle();
        queued.settle();
    }
    assert!(queued.error().to_string().contains("queue_timeout_ms"));
    let counts = tally.read();
    let waited = counts.queued.expect("it waited");
    assert!(waited >= Duration::from_millis(1), "{counts:?}");
    assert_eq!((counts.prefill, counts.first), (None, None));
    assert_eq!(counts.decoding, Duration::ZERO);
}

#[test]
fn a_preempted_generation_waits_and_does_not_decode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let go_on = folder.path().join("go_on");
    let script = json!({ "release": go_on, "context": 60_000, "cells": 200_000, "replies": [
        { "when": "hold", "text": "abc", "then": "hang" },
        { "text": "on and on ", "then": "repeat" },
    ] });
    let chat = Chat::with_engine(GRAPH, &script, |engine| engine.max_num_seqs = 2);
    let has_tokens = |tally: &Tally, count: u32| tally.read().generated >= count;
    let begun = Instant::now();
    let mut chats = [(); 2].map(|()| {
        let (mut harness, tally) = start(&chat, 1, "go");
        harness.block_until(|_| has_tokens(&tally, 1));
        (harness, tally)
    });
    // It takes a slot of the other tenant, which has two, and its last step does not end.
    let (mut holding, _) = start(&chat, 2, "hold");
    let waits = |harness: &Harness| {
        let why = harness.why().to_string();
        why.contains("preempted, 1st in its queue")
    };
    let (preempted, tally) = loop {
        holding.settle();
        for (harness, _) in &mut chats {
            harness.settle();
        }
        if let Some(index) = chats.iter().position(|(harness, _)| waits(harness)) {
            break &mut chats[index];
        }
        std::thread::yield_now();
    };
    let before = tally.read();
    let begins = Instant::now();
    while begins.elapsed() < Duration::from_millis(5) {
        std::thread::yield_now();
    }
    let waited = begins.elapsed();
    let meanwhile = tally.read();
    assert!(meanwhile.queued.expect("known") >= before.queued.expect("known") + waited);
    assert_eq!(meanwhile.decoding, before.decoding);

    std::fs::write(&go_on, "").expect("writable");
    preempted.block_until(|_| has_tokens(tally, meanwhile.generated + 1));
    let after = tally.read();
    let queued = after.queued.expect("known");
    assert!(queued >= waited, "{queued:?}");
    let parts = queued + after.prefill.expect("known") + after.decoding;
    assert!(
        parts <= begun.elapsed(),
        "each moment counts once: {after:?}"
    );
}
