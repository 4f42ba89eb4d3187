//! Waits for slots, in the counts of a request.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use graphmill_calculators::payload::{Account, Tally};
use graphmill_engine::testing::Harness;
use graphmill_llm::Tenant;
use serde_json::json;

use super::{Chat, GRAPH};

#[test]
fn a_preempted_generation_waits_and_does_not_decode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let go_on = folder.path().join("go_on");
    let script = json!({ "release": go_on, "context": 60_000, "cells": 200_000, "replies": [
        { "when": "hold", "text": "abc", "then": "hang" },
        { "text": "on and on ", "then": "repeat" },
    ] });
    let chat = Chat::with_engine(GRAPH, &script, |engine| engine.max_num_seqs = 2);
    let start = |tenant: Tenant, text: &str| {
        let tally = Arc::<Tally>::default();
        let counts = Arc::clone(&tally);
        let harness = chat.harness().request(move |cx| {
            cx.extension = Some(Arc::new(Account {
                tally: counts,
                tenant: Some(tenant),
                ..Account::default()
            }));
        });
        let request = json!({ "model": "m", "stream": true,
            "messages": [{ "role": "user", "content": text }] });
        let (harness, _) = chat.open_in(harness, "/v3/chat/completions", &request);
        (harness, tally)
    };
    let has_tokens = |tally: &Tally, count: u32| tally.read().generated >= count;
    let begun = Instant::now();
    let [busy, other] = [1, 2].map(|number| Tenant {
        number,
        weight: NonZeroU32::MIN,
        places: 1,
    });
    let (mut kept, tally) = start(busy, "go");
    kept.block_until(|_| has_tokens(&tally, 1));
    let (mut preempted, tally) = start(busy, "go");
    preempted.block_until(|_| has_tokens(&tally, 3));
    // It takes a slot of the other tenant, which has two, and its last step does not end.
    let (mut holding, _) = start(other, "hold");
    let waits = |harness: &Harness| {
        let why = harness.why().to_string();
        why.contains("preempted, 1st in its queue")
    };
    loop {
        holding.settle();
        preempted.settle();
        if waits(&preempted) {
            break;
        }
        std::thread::yield_now();
    }
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
    preempted.block_until(|_| has_tokens(&tally, meanwhile.generated + 1));
    let after = tally.read();
    let queued = after.queued.expect("known");
    assert!(queued >= waited, "{queued:?}");
    let parts = queued + after.prefill.expect("known") + after.decoding;
    assert!(
        parts <= begun.elapsed(),
        "each moment counts once: {after:?}"
    );
}
