//! Whatever comes, every sequence ends and every step keeps the rules.

use proptest::prelude::*;

use super::super::*;
use super::simulate::{Job, STEP, World};

fn jobs(cells: u32) -> impl Strategy<Value = Vec<Job>> {
    let shape = (1..cells, 1..80_u32);
    let times = (0..40_u64, prop_oneof![Just(0), -50..50_i64]);
    let credit = (prop_oneof![Just(u32::MAX), 1..6_u32], 0..90_u64);
    let drafts = (0..6_u32, 0..6_u32);
    let request = prop::option::of(0..3_u64);
    let job = (shape, times, credit, drafts, request).prop_map(
        move |(
            (prompt, generate),
            (arrives, head_start),
            (credit, pause),
            (drafts, right),
            request,
        )| Job {
            request,
            prompt,
            // The engine refuses what does not fit alone: the last token needs no cell.
            generate: generate.min(cells - prompt + 1),
            arrives: arrives * STEP,
            head_start: head_start * STEP as i64,
            credit,
            pause: pause * STEP,
            drafts,
            right,
            tenant: None,
        },
    );
    prop::collection::vec(job, 1..14)
}

/// Machines whose steps cost nearly the same, grow with each token, or like full tiles.
fn machine() -> impl Strategy<Value = fn(&StepSize) -> f64> {
    fn gpu(size: &StepSize) -> f64 {
        900.0 + f64::from(size.decode_tokens + size.prompt_tokens)
    }
    fn cpu(size: &StepSize) -> f64 {
        300.0 + 150.0 * f64::from(size.decode_tokens) + 90.0 * f64::from(size.prompt_tokens)
    }
    fn tiles(size: &StepSize) -> f64 {
        let price = if size.prompt_tokens > 16 { 40.0 } else { 200.0 };
        cpu(size) + price * f64::from(size.prompt_tokens)
    }
    prop_oneof![
        Just(gpu as fn(&StepSize) -> f64),
        Just(cpu as fn(&StepSize) -> f64),
        Just(tiles as fn(&StepSize) -> f64)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_workload_ends_and_every_step_keeps_the_rules(
        (cells, jobs) in (2..300_u32).prop_flat_map(|cells| (Just(cells), jobs(cells))),
        batch_tokens in 2..64_u32,
        max_sequences in 1..10_u32,
        split_prompts: bool,
        target in prop_oneof![Just(None), (0..5_000_u64).prop_map(Some)],
        machine in machine(),
    ) {
        let limits = StepLimits { batch_tokens, max_sequences, split_prompts };
        let history = World { limits, cells, target, machine }.play(&jobs);
        prop_assert_eq!(history.finished.len(), jobs.len());
    }
}
