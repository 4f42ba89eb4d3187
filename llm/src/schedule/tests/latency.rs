//! How long streams, prompts and the queue wait, on machines of different kinds.

use super::super::*;
use super::simulate::{Job, LIMITS, WORLD, World, job};

const MILLI: u64 = 1_000;

/// A small model on two cores: the weights are read once a step, and each token costs.
const CPU: World = World {
    cells: 100_000,
    machine: |size| {
        20_000.0 + 5_500.0 * f64::from(size.decode_tokens) + 1_700.0 * f64::from(size.prompt_tokens)
    },
    ..WORLD
};

/// A step costs nearly the same, whatever its size.
const GPU: World = World {
    machine: |size| 8_000.0 + 20.0 * f64::from(size.decode_tokens + size.prompt_tokens),
    ..CPU
};

fn at(milliseconds: u64, job: Job) -> Job {
    Job {
        arrives: milliseconds * MILLI,
        ..job
    }
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// Eight streams, and prompts of 2000 tokens that arrive every six seconds.
fn arrivals() -> Vec<Job> {
    let mut jobs = vec![job(16, 800); 8];
    jobs.extend((1..=8).map(|number| at(number * 6_000, job(2_000, 1))));
    jobs
}

#[test]
fn streams_go_on_at_the_target_while_long_prompts_arrive() {
    let jobs = arrivals();
    let alone = percentile(&CPU.play(&jobs[..8]).gaps(0..8), 50);
    assert_eq!(alone, 64 * MILLI);
    let history = CPU.play(&jobs);
    let gaps = history.gaps(0..8);
    // Three times what the decodes alone take would be less than the shortest target.
    let longest = percentile(&gaps, 99);
    assert!(longest <= 200 * MILLI * 101 / 100, "{longest}");
    // Two thirds of the time went to the prompt.
    for prompt in 8..16 {
        let waited = history.first_output(&jobs, prompt);
        assert!(waited <= 2_000 * 1_700 * 3 / 2 * 11 / 10, "{waited}");
    }
    // Nothing was lost: the prompts rode along in steps that the streams needed anyway.
    let work = 800 * 64 * MILLI + 8 * 2_000 * 1_700;
    assert!(history.end <= work * 105 / 100, "{} of {work}", history.end);
}

#[test]
fn prompts_that_come_together_get_more_of_a_step_than_one_that_comes_alone() {
    let mut jobs = vec![job(16, 400); 2];
    jobs.push(at(2_000, job(400, 60)));
    jobs.extend(vec![at(12_000, job(400, 60)); 8]);
    let history = CPU.play(&jobs);
    let longest_gap = |from: u64, to: u64| {
        let during = |pair: &[u64]| {
            let inside = pair[0] >= from * MILLI && pair[0] < to * MILLI;
            if inside { pair[1] - pair[0] } else { 0 }
        };
        let pairs = history.outputs[0].windows(2);
        pairs.map(during).max().expect("outputs")
    };
    // The target of two decodes is 200 ms, for a burst of prompts up to four times that, and never
    // more.
    assert!(longest_gap(0, 12_000) <= 205 * MILLI);
    let in_burst = longest_gap(12_000, 20_000);
    assert!(
        (400 * MILLI..=810 * MILLI).contains(&in_burst),
        "{in_burst}"
    );
}

#[test]
fn a_target_that_was_set_holds() {
    let world = World {
        target: Some(110 * MILLI),
        ..CPU
    };
    let gaps = world.play(&arrivals()).gaps(0..8);
    assert!(
        percentile(&gaps, 99) <= 111 * MILLI,
        "{}",
        percentile(&gaps, 99)
    );
    let mut burst = arrivals();
    burst.extend(vec![at(6_000, job(400, 1)); 20]);
    let gaps = world.play(&burst).gaps(0..8);
    assert!(
        percentile(&gaps, 99) <= 111 * MILLI,
        "{}",
        percentile(&gaps, 99)
    );
}

#[test]
fn a_target_below_the_decodes_does_not_stop_prompts() {
    let world = World {
        target: Some(1),
        ..CPU
    };
    let jobs = arrivals();
    let waited = world.play(&jobs).first_output(&jobs, 8);
    // 16 tokens a step.
    let step = 64 * MILLI + 16 * 1_700;
    assert!(waited <= (2_000_u64.div_ceil(16) + 2) * step, "{waited}");
}

#[test]
fn a_machine_that_does_not_mind_large_steps_gets_them() {
    let jobs = arrivals();
    let history = GPU.play(&jobs);
    // 248 tokens beside 8 decodes.
    for prompt in 8..16 {
        let waited = history.first_output(&jobs, prompt);
        assert!(waited <= 10 * 14 * MILLI, "{waited}");
    }
}

#[test]
fn a_machine_that_becomes_slower_is_followed() {
    // Attention over what the eight streams have generated makes their steps four times as long in
    // the end.
    let world = World {
        machine: |size| {
            20_000.0
                + 5_500.0 * f64::from(size.decode_tokens)
                + 30.0 * size.attended_cells as f64
                + 1_700.0 * f64::from(size.prompt_tokens)
        },
        ..CPU
    };
    let gaps = world.play(&arrivals()).gaps(0..8);
    let last_decode = 64 * MILLI + 30 * 8 * 816;
    assert!(*gaps.last().expect("gaps") <= last_decode * 4, "{gaps:?}");
}

#[test]
fn a_short_prompt_is_not_stuck_behind_a_long_one() {
    let jobs = [
        job(16, 2_000),
        at(1_000, job(20_000, 1)),
        at(2_000, job(100, 1)),
    ];
    let history = CPU.play(&jobs);
    assert!(history.first_output(&jobs, 2) <= 600 * MILLI);
    // The long one lost no more than that.
    assert!(history.first_output(&jobs, 1) <= 20_000 * 1_700 * 14 / 10);
}

#[test]
fn a_long_prompt_is_not_starved_by_short_ones() {
    // Ten prompts of 100 tokens arrive in each second, for which the machine needs nearly two.
    let mut jobs = vec![job(4_000, 1)];
    jobs.extend((1..1_200).map(|number| at(number * 100, job(100, 1))));
    let waited = CPU.play(&jobs).first_output(&jobs, 0);
    // 7 s of its own, and the short ones of the first 27 s.
    assert!(waited <= 60_000 * MILLI, "{waited}");
}

#[test]
fn equal_prompts_go_one_after_the_other() {
    let jobs = vec![job(1_000, 2); 4];
    let history = CPU.play(&jobs);
    let first: Vec<u64> = (0..4).map(|job| history.outputs[job][0]).collect();
    assert!(first.is_sorted() && first[0] * 3 < first[3], "{first:?}");
}

#[test]
fn a_head_start_decides_who_is_admitted_until_waiting_has_made_up_for_it() {
    let world = World {
        limits: StepLimits {
            max_sequences: 1,
            ..LIMITS
        },
        ..CPU
    };
    let urgent = |job| Job {
        head_start: 5_000_000,
        ..job
    };
    let jobs = [
        job(100, 100),
        at(100, job(100, 1)),
        at(200, urgent(job(100, 1))),
        at(5_300, urgent(job(100, 1))),
    ];
    assert_eq!(world.play(&jobs).finished, [0, 2, 1, 3]);
}

#[test]
fn the_last_in_rank_gives_way_whenever_it_arrived() {
    let world = World { cells: 120, ..CPU };
    let jobs = [
        job(20, 60),
        at(
            1,
            Job {
                head_start: 2_000_000,
                ..job(20, 60)
            },
        ),
    ];
    let history = world.play(&jobs);
    assert_eq!((history.preemptions, history.finished), (1, vec![1, 0]));
}

#[test]
fn a_burst_gets_its_first_tokens_in_the_time_of_its_prompts() {
    let jobs = vec![job(128, 64); 256];
    let history = GPU.play(&jobs);
    let mut waited: Vec<u64> = (0..256)
        .map(|job| history.first_output(&jobs, job))
        .collect();
    waited.sort_unstable();
    // Whole batches of prompts alone.
    let ideal = 256 * 128 / 256 * (8 * MILLI + 20 * 256);
    assert!(percentile(&waited, 99) <= 2 * ideal, "{waited:?}");
}

/// What machines take for a step that a burst fills: a token that is chosen takes as long as
/// another one, or three times as long.
const FILLED: [fn(&StepSize) -> f64; 3] = [
    |size| 60.0 * f64::from(size.prompt_tokens + size.decode_tokens),
    |size| 60.0 * f64::from(size.prompt_tokens + 3 * size.decode_tokens),
    |size| 600.0 + 20.0 * f64::from(size.prompt_tokens) + 50.0 * f64::from(size.decode_tokens),
];

/// Plays a burst of 256 that comes when these jobs have ended. How long the last of its first
/// tokens takes, in times of what the prompts alone take, and its longest gap, in times of a step
/// of all decodes.
fn burst_after(before: &[Job], machine: fn(&StepSize) -> f64) -> (f64, f64) {
    let world = World {
        cells: 256 * 512,
        machine,
        ..WORLD
    };
    let begins = world.play(before).end;
    let burst = Job {
        arrives: begins,
        ..job(64, 400)
    };
    let mut jobs = before.to_vec();
    jobs.extend(std::iter::repeat_n(burst, 256));
    let history = world.play(&jobs);
    let all = before.len()..jobs.len();
    let first = all.clone().map(|job| history.first_output(&jobs, job));
    let gaps = history.gaps(all);
    let size = |prompt_tokens, decode_tokens| StepSize {
        decode_tokens,
        prompt_tokens,
        ..StepSize::default()
    };
    let longest = |times: Option<u64>, step| times.expect("outputs") as f64 / machine(&step);
    (
        longest(first.max(), size(256, 0)) / 64.0,
        longest(gaps.last().copied(), size(0, 256)),
    )
}

#[test]
fn a_burst_that_fills_the_budget_has_its_first_tokens_in_less_than_twice_the_time_of_its_prompts() {
    let growing: Vec<Job> = (1..=4)
        .map(|number| job(64 * number, 100 * number))
        .collect();
    // Steps of eight say nothing of what one decode more takes.
    let alike = vec![job(32, 100); 8];
    for machine in FILLED {
        for before in [&[] as &[Job], &growing, &alike] {
            let (first, gap) = burst_after(before, machine);
            assert!(first <= 1.5, "{first} after {before:?}");
            // Two thirds of the time for prompts make a gap three times as long; none is longer,
            // but for a turn.
            assert!(gap <= 4.0, "{gap} after {before:?}");
        }
    }
}
