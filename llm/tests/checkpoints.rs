//! Prefixes of a model whose sequences go on from others only with checkpoints, on a scripted
//! backend in both layouts of the KV cache. The backend checks that every token finds the cells of
//! all tokens before it, and the checkpoint that belongs to them.

use std::collections::BTreeMap;

use graphmill_llm::backend::scripted::Script;
use graphmill_llm::{FinishReason, LlmEngineSpec};
use proptest::prelude::*;

use crate::sharing::{Bench, LAYOUTS, action, expected, prompt, spec};

/// A checkpoint is made so many tokens before the end of a prompt.
const TAIL: u32 = 4;

fn script() -> Script {
    Script {
        checkpoints: true,
        ..Script::default()
    }
}

fn length(prompt: &[i32]) -> u32 {
    prompt.len() as u32
}

#[test]
fn a_prompt_goes_on_from_a_checkpoint_before_its_end() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        let first = prompt(100, 0);
        assert_eq!(bench.run(0, &first).cached_tokens, 0);
        // The same prompt, and one that ends otherwise, as a chat whose template leaves out what
        // began the answer.
        let tail = length(&first) - TAIL;
        assert_eq!(bench.run(1, &first).cached_tokens, tail);
        let mut otherwise = first.clone();
        otherwise.truncate(tail as usize + 1);
        otherwise.extend([7; 40]);
        assert_eq!(bench.run(2, &otherwise).cached_tokens, tail);
        let status = bench.engine.status();
        assert_eq!(
            (status.prefix_cache.checkpoints.hits, status.kv_cells_used),
            (2, 0)
        );
        assert!(
            status.prefix_cache.checkpoints.count > 0 && status.prefix_cache.checkpoints.bytes > 0
        );
    }
}

#[test]
fn a_chat_goes_on_from_the_end_of_its_last_answer() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        let first = prompt(100, 0);
        bench.start(0, &first, 40, "");
        bench.finish();
        // All but the last generated token was computed.
        let mut longer = first.clone();
        longer.extend(expected(&first, 40));
        let known = length(&longer) - 1;
        longer.extend([9; 30]);
        assert_eq!(bench.run(1, &longer).cached_tokens, known);
    }
}

#[test]
fn the_second_prompt_that_parts_from_others_makes_a_checkpoint_for_the_third() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        // 100 of the beginning and the token that ends it.
        let cached: Vec<u32> = (0..4)
            .map(|name| bench.run(name, &prompt(100, name)).cached_tokens)
            .collect();
        assert_eq!(cached, [0, 0, 101, 101]);
    }
}

#[test]
fn another_question_goes_on_from_where_the_last_turn_begins() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        // The first still generates when the second comes, and is done when the third does.
        let turn = Some(101);
        bench.start_turn(0, &prompt(100, 0), 30, "", turn);
        while bench.engine.status().prefix_cache.checkpoints.count == 0 {
            bench.reach_step();
            bench.take_step();
        }
        for name in 1..3 {
            bench.start_turn(name, &prompt(100, name), 4, "", turn);
            bench.finish();
            assert_eq!(bench.done[&name].2.cached_tokens, 101);
            assert_eq!(bench.done[&name].0, expected(&prompt(100, name), 4));
        }
        assert_eq!(bench.done[&0].0, expected(&prompt(100, 0), 30));
        // A turn at the beginning, behind the end or in the end of a prompt is no place for one.
        let other = vec![5; 60];
        let places = [0, 3, 58, 60, 1000, u32::MAX];
        for (name, place) in (3..).zip(places) {
            bench.start_turn(name, &other, 4, "", Some(place));
            bench.finish();
            assert_eq!(bench.done[&name].0, expected(&other, 4));
        }
    }
}

#[test]
fn prompts_that_come_at_once_compute_their_beginning_once() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        for name in 0..16 {
            bench.start(name, &prompt(303, name), 4, "");
        }
        bench.finish();
        for name in 0..16 {
            assert_eq!(bench.done[&name].0, expected(&prompt(303, name), 4));
        }
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, 304 + 16 * 21, "{status:?}");
    }
}

#[test]
fn a_request_that_follows_a_running_one_waits_for_its_checkpoint() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        bench.start(0, &prompt(300, 0), 30, "");
        bench.reach_step();
        bench.start(1, &prompt(300, 1), 4, "");
        bench.take_step();
        bench.finish();
        assert_eq!(bench.done[&1].2.cached_tokens, 301);
        assert_eq!(bench.done[&0].0, expected(&prompt(300, 0), 30));
    }
}

#[test]
fn when_the_first_is_cancelled_the_next_one_goes_on_from_there() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(script(), spec(streams));
        for name in 0..4 {
            bench.start(name, &prompt(300, name), 4, "");
        }
        for _ in 0..2 {
            bench.reach_step();
            bench.take_step();
        }
        bench.reach_step();
        bench.cancel(0);
        bench.take_step();
        bench.finish();
        for name in 1..4 {
            assert_eq!(bench.done[&name].0, expected(&prompt(300, name), 4));
        }
        let computed = bench.engine.status().prompt_tokens;
        assert!(computed <= 301 + 4 * 21, "{computed}");
    }
}

#[test]
fn a_preempted_sequence_comes_back_without_computing_again() {
    for streams in LAYOUTS {
        let script = Script {
            cells: 200,
            ..script()
        };
        let mut bench = Bench::new(script, spec(streams));
        let prompts = [vec![1; 60], vec![2; 60]];
        for (name, prompt) in prompts.iter().enumerate() {
            bench.start(name, prompt, 80, "");
        }
        bench.finish();
        for (name, prompt) in prompts.iter().enumerate() {
            assert_eq!(bench.done[&name].0, expected(prompt, 80));
        }
        let status = bench.engine.status();
        assert!(status.preemptions > 0);
        assert_eq!(status.prompt_tokens, 120);
    }
}

#[test]
fn the_limits_of_host_memory_hold_and_what_was_used_last_stays() {
    let prompts: Vec<Vec<i32>> = (1..9).map(|first| vec![first; 90]).collect();
    for streams in LAYOUTS {
        let limited = LlmEngineSpec {
            // Of two prompts, each with a checkpoint; at its end there is none, so near to that.
            checkpoint_cache_size: Some(4 * 2 * 90),
            ..spec(streams)
        };
        let mut bench = Bench::new(script(), limited);
        for (name, prompt) in prompts.iter().enumerate() {
            bench.run(name, prompt);
            let status = bench.engine.status();
            assert!(
                status.prefix_cache.checkpoints.bytes <= 4 * 2 * 90,
                "{status:?}"
            );
            // Cells are kept only as far as a checkpoint makes use of them.
            assert_eq!(
                status.prefix_cache.tokens,
                86 * status.prefix_cache.checkpoints.count
            );
        }
        assert_eq!(bench.engine.status().prefix_cache.checkpoints.dropped, 6);
        assert_eq!(bench.run(8, &prompts[7]).cached_tokens, 86);
        assert_eq!(bench.run(9, &prompts[0]).cached_tokens, 0);
    }
}

#[test]
fn without_memory_for_checkpoints_everything_is_computed() {
    let none = LlmEngineSpec {
        checkpoint_cache_size: Some(0),
        ..spec(false)
    };
    let mut bench = Bench::new(script(), none);
    for name in 0..3 {
        assert_eq!(bench.run(name, &prompt(100, 0)).cached_tokens, 0);
    }
    let status = bench.engine.status();
    assert_eq!(
        (
            status.prefix_cache.tokens,
            status.prefix_cache.checkpoints.count
        ),
        (0, 0)
    );
}

#[test]
fn without_memory_for_cells_running_sequences_share() {
    let none = LlmEngineSpec {
        prefix_cache_size: Some(0),
        ..spec(false)
    };
    let mut bench = Bench::new(script(), none);
    for name in 0..4 {
        bench.start(name, &prompt(300, name), 4, "");
    }
    bench.finish();
    let status = bench.engine.status();
    assert_eq!(status.prompt_tokens, 301 + 4 * 21);
    assert_eq!(
        (
            status.prefix_cache.bytes,
            status.prefix_cache.checkpoints.count
        ),
        (0, 0)
    );
    assert_eq!(bench.run(9, &prompt(300, 9)).cached_tokens, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn any_workload_gives_the_texts_of_a_model_without_sharing(
        actions in prop::collection::vec(action(), 1..40),
        streams: bool,
        cells in 140..600_u32,
        host in prop_oneof![Just(0_u64), 200..4_000_u64],
        checkpoints in prop_oneof![Just(0_u64), 200..4_000_u64],
        max_num_seqs in 1..9_u32,
        batch in 2..80_u32,
    ) {
        let spec = LlmEngineSpec {
            max_num_seqs,
            max_num_batched_tokens: batch,
            prefix_cache_size: Some(host),
            checkpoint_cache_size: Some(checkpoints),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script { cells, ..script() }, spec);
        let started: BTreeMap<usize, (Vec<i32>, u32)> = bench.play(actions);
        for (name, (text, finish, _)) in &bench.done {
            let (prompt, max_tokens) = &started[name];
            prop_assert_eq!(finish, &FinishReason::Length);
            prop_assert_eq!(text, &expected(prompt, *max_tokens as usize));
        }
        let status = bench.engine.status();
        prop_assert!(status.prefix_cache.bytes <= host);
        prop_assert!(status.prefix_cache.checkpoints.bytes <= checkpoints);
    }
}
