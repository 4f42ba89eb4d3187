//! Prefix sharing with a scripted model, in both layouts of the KV cache. The backend checks that
//! every token finds the cells of all tokens before it; the tests compare the engine's numbers with
//! the backend's at every step.

use graphmill_llm::backend::scripted::Script;
use graphmill_llm::{FinishReason, LlmEngineSpec, Token};
use proptest::prelude::*;

use crate::sharing::{Bench, LAYOUTS, action, expected, prompt, spec};

#[test]
fn what_a_finished_sequence_computed_is_taken_over() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        assert_eq!(bench.run(0, &prompt(100, 0)).cached_tokens, 0);
        // 100 of the beginning and the token that ends it.
        assert_eq!(bench.run(1, &prompt(100, 1)).cached_tokens, 101);
        assert_eq!(bench.run(2, &prompt(60, 0)).cached_tokens, 60);
        // The same prompt again: only its last token is computed.
        let again = prompt(100, 1);
        assert_eq!(bench.run(3, &again).cached_tokens as usize, again.len() - 1);
        // A chat that goes on: everything but the last generated token was computed before.
        let mut longer = again.clone();
        longer.extend(expected(&again, 4));
        let known = longer.len() as u32 - 1;
        longer.extend([9, 9, 9]);
        assert_eq!(bench.run(4, &longer).cached_tokens, known);
        let status = bench.engine.status();
        assert_eq!(status.kv_cells_used, 0);
        assert!(
            status.prefix_cache.tokens > 0
                && status.prefix_cache.bytes == 12 * status.prefix_cache.tokens
        );
        let hits = 101 + 60 + again.len() as u64 - 1 + u64::from(known);
        assert_eq!(status.prefix_cache.hits, hits);
        assert_eq!(status.prompt_tokens, status.prefix_cache.queries - hits);
    }
}

#[test]
fn a_second_request_computes_only_its_end_while_the_first_generates() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        bench.start(0, &prompt(100, 0), 50, "");
        for _ in 0..5 {
            bench.reach_step();
            bench.take_step();
        }
        bench.reach_step();
        let before = bench.engine.status();
        bench.start(1, &prompt(100, 1), 4, "");
        // It arrives while a step is held up at the gate, and takes part in the next one.
        for _ in 0..2 {
            bench.take_step();
            bench.reach_step();
        }
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, before.prompt_tokens + 21);
        assert_eq!(status.sequences_running, 2);
        let new = status.kv_cells_used - before.kv_cells_used;
        // Two more of the first sequence; shared cells count once, copies count.
        assert!(if streams { new > 120 } else { new <= 24 }, "{new}");
        bench.take_step();
        bench.finish();
        assert_eq!(bench.done[&1].0, expected(&prompt(100, 1), 4));
        assert_eq!(bench.done[&0].0, expected(&prompt(100, 0), 50));
    }
}

#[test]
fn prompts_that_come_at_once_compute_their_beginning_once() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        for name in 0..16 {
            bench.start(name, &prompt(303, name), 4, "");
        }
        // Another one with a beginning of its own does not wait behind them.
        bench.start(16, &[77; 40], 4, "");
        bench.finish();
        for name in 0..16 {
            assert_eq!(bench.done[&name].0, expected(&prompt(303, name), 4));
        }
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, 304 + 16 * 21 + 40, "{status:?}");
        let cached: u32 = bench
            .done
            .values()
            .map(|(_, _, usage)| usage.cached_tokens)
            .sum();
        assert_eq!(cached, 15 * 304);
    }
}

#[test]
fn equal_prompts_are_computed_once() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        let prompt = prompt(100, 0);
        for name in 0..4 {
            bench.start(name, &prompt, 4, "");
        }
        bench.finish();
        let computed = prompt.len() as u64 + 3;
        assert_eq!(bench.engine.status().prompt_tokens, computed);
        assert!(
            bench
                .done
                .values()
                .all(|(text, _, _)| *text == expected(&prompt, 4))
        );
    }
}

#[test]
fn when_the_first_is_cancelled_the_next_one_goes_on_from_there() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        bench.start(0, &prompt(300, 0), 4, "");
        for name in 1..4 {
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
        // Whatever the first one had computed was not computed again.
        let computed = bench.engine.status().prompt_tokens;
        assert!(computed <= 301 + 4 * 21, "{computed}");
    }
}

#[test]
fn a_preempted_sequence_comes_back_without_computing_again() {
    for streams in LAYOUTS {
        let script = Script {
            cells: 200,
            ..Script::default()
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
fn the_limit_of_host_memory_holds() {
    for streams in LAYOUTS {
        let limited = LlmEngineSpec {
            prefix_cache_size: Some(8 * 200),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script::default(), limited);
        for name in 0..8 {
            bench.run(name, &[name as Token + 1; 90]);
            assert!(bench.engine.status().prefix_cache.bytes <= 8 * 200);
        }
        let status = bench.engine.status();
        assert_eq!(
            status.prefix_cache.tokens + status.prefix_cache.evicted,
            8 * 93
        );
        assert_eq!(bench.run(8, &[8; 90]).cached_tokens, 89);
        assert_eq!(bench.run(9, &[1; 90]).cached_tokens, 0);
    }
}

#[test]
fn without_host_memory_live_sequences_are_shared_still() {
    for streams in LAYOUTS {
        let none = LlmEngineSpec {
            prefix_cache_size: Some(0),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script::default(), none);
        for name in 0..4 {
            bench.start(name, &prompt(300, name), 4, "");
        }
        bench.finish();
        let status = bench.engine.status();
        assert_eq!(status.prompt_tokens, 301 + 4 * 21);
        assert_eq!(status.prefix_cache.bytes, 0);
        assert_eq!(bench.run(9, &prompt(300, 9)).cached_tokens, 0);
    }
}

#[test]
fn another_salt_shares_nothing() {
    for streams in LAYOUTS {
        let mut bench = Bench::new(Script::default(), spec(streams));
        let prompt = prompt(100, 0);
        for (name, salt) in ["a", "b", "a"].into_iter().enumerate() {
            bench.start(name, &prompt, 4, salt);
            bench.finish();
        }
        let cached = |name: usize| bench.done[&name].2.cached_tokens as usize;
        assert_eq!([cached(0), cached(1)], [0, 0]);
        assert_eq!(cached(2), prompt.len() - 1);
    }
}

#[test]
fn switched_off_everything_is_computed() {
    let off = LlmEngineSpec {
        prefix_caching: false,
        ..spec(false)
    };
    let mut bench = Bench::new(Script::default(), off);
    for name in 0..4 {
        bench.start(name, &prompt(100, 0), 4, "");
    }
    bench.finish();
    assert_eq!(bench.run(4, &prompt(100, 0)).cached_tokens, 0);
    let status = bench.engine.status();
    assert_eq!(status.prompt_tokens, 5 * prompt(100, 0).len() as u64);
    assert_eq!(
        (status.prefix_cache.queries, status.prefix_cache.tokens),
        (0, 0)
    );
}

#[test]
fn a_failed_step_takes_the_cells_and_leaves_what_was_saved() {
    for streams in LAYOUTS {
        let script = Script {
            // The first generation takes two steps for its prompt and three more.
            fail_steps: vec![8],
            ..Script::default()
        };
        let mut bench = Bench::new(script, spec(streams));
        bench.run(0, &prompt(60, 0));
        bench.start(1, &prompt(60, 1), 10, "");
        bench.finish();
        assert!(matches!(bench.done[&1].1, FinishReason::Error(_)));
        assert_eq!(bench.engine.status().kv_cells_used, 0);
        // Of the failed sequence nothing is known, of the one before everything.
        assert_eq!(bench.run(2, &prompt(60, 1)).cached_tokens, 61);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn any_workload_gives_the_texts_of_a_model_without_sharing(
        actions in prop::collection::vec(action(), 1..40),
        streams: bool,
        cells in 140..600_u32,
        host in prop_oneof![Just(0_u64), 200..4_000_u64],
        max_num_seqs in 1..9_u32,
        batch in 2..80_u32,
    ) {
        let spec = LlmEngineSpec {
            max_num_seqs,
            max_num_batched_tokens: batch,
            prefix_cache_size: Some(host),
            ..spec(streams)
        };
        let mut bench = Bench::new(Script { cells, ..Script::default() }, spec);
        let started = bench.play(actions);
        for (name, (text, finish, _)) in &bench.done {
            let (prompt, max_tokens) = &started[name];
            prop_assert_eq!(finish, &FinishReason::Length);
            prop_assert_eq!(text, &expected(prompt, *max_tokens as usize));
        }
        prop_assert!(bench.engine.status().prefix_cache.bytes <= host);
    }
}
