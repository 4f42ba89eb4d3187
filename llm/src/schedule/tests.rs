//! Plays whole workloads through the scheduler on a simulated cache and checks every step.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A sequence of a workload.
#[derive(Clone, Copy, Debug)]
struct Job {
    prompt: u32,
    generate: u32,
    /// Step before which it does not exist.
    arrives: u64,
    /// Outputs it may make before it sits out, and for how many steps it then does.
    credit: u32,
    pause: u64,
    /// Drafts with each decode, and how many of them prove right.
    drafts: u32,
    right: u32,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    row: Row,
    slot: bool,
    credit: u32,
    resumes: u64,
}

/// Everything that happened.
#[derive(Debug, Default)]
struct History {
    steps: u64,
    first_admissions: Vec<u64>,
    finished: Vec<u64>,
    preemptions: u64,
}

/// Runs the jobs to their end. Panics if a step breaks a rule of the scheduler.
fn play(limits: Limits, cells: u32, jobs: &[Job]) -> History {
    let mut live: BTreeMap<u64, Live> = BTreeMap::new();
    let mut history = History::default();
    let mut plan = Plan::default();
    let work: u64 = jobs
        .iter()
        .map(|job| u64::from(job.prompt + job.generate))
        .sum();
    let pauses: u64 = jobs
        .iter()
        .map(|job| job.pause * u64::from(job.generate / job.credit.max(1) + 1))
        .sum();
    let last_arrival = jobs.iter().map(|job| job.arrives).max().unwrap_or(0);
    // A step in which something runs advances at least the oldest; recomputation can only repeat what younger ones did.
    let most_steps = 10 + last_arrival + pauses + 4 * work * jobs.len() as u64;
    for step in 1.. {
        assert!(step <= most_steps, "no end after {step} steps: {live:?}");
        for (index, job) in jobs
            .iter()
            .enumerate()
            .filter(|(_, job)| job.arrives + 1 == step)
        {
            let row = Row {
                id: SequenceId(index as u64),
                tokens: job.prompt,
                computed: 0,
                owned: 0,
                deferred: false,
                remaining: job.generate,
                drafts: job.drafts,
                has_credit: true,
                last_step: 0,
            };
            live.insert(
                index as u64,
                Live {
                    row,
                    slot: false,
                    credit: job.credit,
                    resumes: 0,
                },
            );
        }
        for (id, sequence) in &mut live {
            if sequence.credit == 0 && sequence.resumes <= step {
                sequence.credit = jobs[*id as usize].credit;
            }
            sequence.row.has_credit = sequence.credit > 0;
        }
        if live.is_empty() && step > last_arrival {
            history.steps = step - 1;
            return history;
        }
        let rows = |slot: bool| {
            live.values()
                .filter(|sequence| sequence.slot == slot)
                .map(|sequence| Row {
                    owned: sequence.row.computed,
                    ..sequence.row
                })
                .collect()
        };
        let (running, waiting): (Vec<Row>, Vec<Row>) = (rows(true), rows(false));
        let used: u32 = running.iter().map(|row| row.computed).sum();
        let now = Now {
            step,
            free_cells: cells - used,
            running: &running,
            waiting: &waiting,
            prompt_had_turn: plan.prompt_turn,
        };
        plan_step(&limits, &now, &mut plan);
        check(&limits, cells, &now, &plan);
        history.preemptions += plan.preempt.len() as u64;
        for id in &plan.preempt {
            let sequence = live.get_mut(&id.0).expect("exists");
            sequence.slot = false;
            sequence.row.computed = 0;
        }
        for id in &plan.admit {
            let sequence = live.get_mut(&id.0).expect("exists");
            sequence.slot = true;
            sequence.row.last_step = step;
            if !history.first_admissions.contains(&id.0) {
                history.first_admissions.push(id.0);
            }
        }
        for work in &plan.work {
            let sequence = live.get_mut(&work.id.0).expect("exists");
            sequence.row.computed += work.tokens;
            sequence.row.last_step = step;
            if sequence.row.computed == sequence.row.tokens {
                let right = work.drafts.min(jobs[work.id.0 as usize].right);
                sequence.row.computed += right;
                sequence.row.tokens += right + 1;
                sequence.row.remaining -= right + 1;
                sequence.credit = sequence.credit.saturating_sub(1);
                sequence.resumes = step + jobs[work.id.0 as usize].pause;
                if sequence.row.remaining == 0 {
                    live.remove(&work.id.0);
                    history.finished.push(work.id.0);
                }
            }
        }
    }
    unreachable!("the loop has no end of its own")
}

fn check(limits: &Limits, cells: u32, now: &Now<'_>, plan: &Plan) {
    let tokens: u32 = plan.work.iter().map(|work| work.tokens + work.drafts).sum();
    assert!(
        tokens <= limits.batch_tokens,
        "the batch exceeds its budget: {plan:?}"
    );
    let preempted = |row: &&Row| plan.preempt.contains(&row.id);
    let freed: u32 = now
        .running
        .iter()
        .filter(preempted)
        .map(|row| row.computed)
        .sum();
    assert!(
        tokens <= now.free_cells + freed,
        "the batch exceeds the free cells: {plan:?}"
    );
    assert!(now.free_cells <= cells);
    let sequences = now.running.len() - plan.preempt.len() + plan.admit.len();
    assert!(
        sequences <= limits.max_sequences as usize,
        "too many sequences: {plan:?}"
    );
    for work in &plan.work {
        let row = now
            .running
            .iter()
            .chain(now.waiting)
            .find(|row| row.id == work.id)
            .expect("work is for known sequences");
        assert!(
            row.has_credit,
            "a sequence without credit takes part: {plan:?}"
        );
        assert!(work.tokens >= 1 && work.tokens <= row.pending());
        assert!(
            work.drafts == 0
                || (row.pending() == 1 && work.drafts <= row.drafts.min(row.remaining - 1)),
            "drafts that cannot be used: {plan:?}"
        );
        assert!(
            !plan.preempt.contains(&row.id),
            "a victim takes part: {plan:?}"
        );
        if !limits.split_prompts && row.pending() <= limits.batch_tokens {
            assert_eq!(work.tokens, row.pending(), "a prompt is split");
        }
    }
    let eligible = || {
        now.running
            .iter()
            .chain(now.waiting)
            .filter(|row| row.has_credit)
    };
    let advances = !plan.work.is_empty() || !plan.preempt.is_empty();
    assert!(
        eligible().next().is_none() || advances,
        "work is left and nothing runs: {now:?}"
    );
    // Decodes come first, and all of them unless the budget or the cells are short.
    let is_decode = |row: &&Row| row.has_credit && row.pending() == 1;
    let decodes = now.running.iter().filter(is_decode).count();
    let has_work = |row: &Row| plan.work.iter().any(|work| work.id == row.id);
    if plan.preempt.is_empty() && !plan.prompt_turn && decodes * 2 <= limits.batch_tokens as usize {
        assert!(
            now.running.iter().filter(is_decode).all(has_work),
            "a decode sits out: {now:?} {plan:?}"
        );
    }
    // Nobody overtakes in the queue.
    let passed_over = now
        .waiting
        .iter()
        .filter(|row| row.has_credit && !plan.admit.contains(&row.id))
        .map(|row| row.id)
        .min();
    assert!(
        plan.admit
            .iter()
            .all(|id| passed_over.is_none_or(|first| *id < first)),
        "admitted out of order: {plan:?}"
    );
}

const LIMITS: Limits = Limits {
    batch_tokens: 256,
    max_sequences: 256,
    split_prompts: true,
};

fn job(prompt: u32, generate: u32) -> Job {
    Job {
        prompt,
        generate,
        arrives: 0,
        credit: u32::MAX,
        pause: 0,
        drafts: 0,
        right: 0,
    }
}

#[test]
fn a_prompt_is_computed_in_chunks_of_the_budget() {
    let history = play(LIMITS, 4_096, &[job(1_000, 1)]);
    assert_eq!(history.steps, 4);
}

#[test]
fn decodes_go_on_while_a_long_prompt_is_computed() {
    let jobs = [
        job(10, 20),
        Job {
            arrives: 2,
            ..job(2_000, 1)
        },
    ];
    let history = play(LIMITS, 4_096, &jobs);
    // `check` sees the decode in every step; 2000 tokens at 255 beside it take 8 steps after the second.
    assert_eq!(history.steps, 20);
    assert_eq!(history.finished, [1, 0]);
}

#[test]
fn a_full_cache_serves_one_after_another() {
    // Each needs the whole cache at its end.
    let jobs = vec![job(50, 51); 6];
    let history = play(LIMITS, 100, &jobs);
    assert_eq!(history.finished, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn the_youngest_gives_way_when_cells_run_out() {
    let history = play(LIMITS, 120, &[job(20, 60), job(20, 60)]);
    assert_eq!(history.finished, [0, 1]);
    assert_eq!(history.preemptions, 1);
}

#[test]
fn a_reader_that_stopped_does_not_hold_the_cache() {
    let stopped = Job {
        credit: 1,
        pause: 10_000,
        ..job(60, 2)
    };
    let history = play(LIMITS, 64, &[stopped, job(40, 10)]);
    assert_eq!(history.finished, [1, 0]);
}

#[test]
fn more_decodes_than_budget_take_turns() {
    let limits = Limits {
        batch_tokens: 8,
        ..LIMITS
    };
    let jobs = vec![job(1, 40); 20];
    let history = play(limits, 4_096, &jobs);
    // 20 jobs x 40 tokens at 8 a step is 100 steps; taking turns, none ends long before the others.
    assert!(history.steps <= 120, "{history:?}");
}

#[test]
fn prompts_are_not_starved_by_decodes_that_fill_the_budget() {
    let limits = Limits {
        batch_tokens: 8,
        ..LIMITS
    };
    let mut jobs = vec![job(1, 400); 16];
    jobs.push(Job {
        arrives: 50,
        ..job(30, 1)
    });
    let history = play(limits, 16_384, &jobs);
    assert_eq!(history.finished[0], 16);
}

#[test]
fn a_prompt_that_must_not_be_split_gets_a_step_of_its_own() {
    let limits = Limits {
        split_prompts: false,
        ..LIMITS
    };
    let history = play(
        limits,
        4_096,
        &[
            job(10, 500),
            Job {
                arrives: 5,
                ..job(256, 1)
            },
        ],
    );
    assert_eq!(history.finished, [1, 0]);
    assert!(history.steps <= 502);
}

#[test]
fn drafts_take_what_prompts_leave() {
    let limits = Limits {
        batch_tokens: 16,
        ..LIMITS
    };
    let drafting = Row {
        id: SequenceId(0),
        tokens: 8,
        computed: 7,
        owned: 7,
        deferred: false,
        remaining: 100,
        drafts: 6,
        has_credit: true,
        last_step: 0,
    };
    let prompt = |tokens| Row {
        id: SequenceId(1),
        tokens,
        computed: 0,
        owned: 0,
        deferred: false,
        drafts: 0,
        ..drafting
    };
    let plan = |waiting: &[Row], free_cells, remaining| {
        let now = Now {
            step: 1,
            free_cells,
            running: &[Row {
                remaining,
                ..drafting
            }],
            waiting,
            prompt_had_turn: false,
        };
        let mut plan = Plan::default();
        plan_step(&limits, &now, &mut plan);
        plan.work[0].drafts
    };
    assert_eq!(plan(&[], 100, 100), 6);
    assert_eq!(plan(&[prompt(11)], 100, 100), 4);
    assert_eq!(plan(&[prompt(50)], 100, 100), 0);
    // Neither cells that are not there nor tokens that are not wanted.
    assert_eq!(plan(&[], 3, 100), 2);
    assert_eq!(plan(&[], 100, 3), 2);
}

#[test]
fn drafts_that_prove_right_save_steps() {
    let drafting = Job {
        drafts: 4,
        right: 3,
        ..job(10, 41)
    };
    assert_eq!(play(LIMITS, 4_096, &[drafting]).steps, 11);
}

fn jobs(cells: u32) -> impl Strategy<Value = Vec<Job>> {
    let job = (
        1..cells,
        1..80_u32,
        0..40_u64,
        prop_oneof![Just(u32::MAX), 1..6_u32],
        0..90_u64,
        0..6_u32,
        0..6_u32,
    );
    let job = job.prop_map(
        move |(prompt, generate, arrives, credit, pause, drafts, right)| Job {
            drafts,
            right,
            // The engine refuses what does not fit alone: the last token needs no cell.
            prompt,
            generate: generate.min(cells - prompt + 1),
            arrives,
            credit,
            pause,
        },
    );
    prop::collection::vec(job, 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_workload_ends_and_every_step_keeps_the_rules(
        (cells, jobs) in (2..300_u32).prop_flat_map(|cells| (Just(cells), jobs(cells))),
        batch_tokens in 2..64_u32,
        max_sequences in 1..10_u32,
        split_prompts: bool,
    ) {
        let limits = Limits { batch_tokens, max_sequences, split_prompts };
        let mut jobs = jobs;
        jobs.sort_by_key(|job| job.arrives);
        let history = play(limits, cells, &jobs);
        prop_assert_eq!(history.finished.len(), jobs.len());
        if jobs.iter().all(|job| job.credit == u32::MAX) {
            prop_assert!(history.first_admissions.is_sorted(), "{:?}", history.first_admissions);
        }
    }
}
