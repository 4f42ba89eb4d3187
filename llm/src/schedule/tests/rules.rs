//! What a step may contain and who gives way, played in steps of equal length.

use super::super::cost::CostModel;
use super::super::*;
use super::simulate::{Job, LIMITS, STEP, WORLD, World, job};

#[test]
fn a_prompt_is_computed_in_chunks_of_the_budget() {
    let history = WORLD.play(&[job(1_000, 1)]);
    assert_eq!(history.steps, 4);
}

#[test]
fn decodes_go_on_while_a_long_prompt_is_computed() {
    let jobs = [
        job(10, 20),
        Job {
            arrives: 2 * STEP,
            ..job(2_000, 1)
        },
    ];
    let history = WORLD.play(&jobs);
    // `check` sees the decode in every step; 2000 tokens at 255 beside it take 8 steps after the
    // second.
    assert_eq!(history.steps, 20);
    assert_eq!(history.finished, [1, 0]);
}

#[test]
fn a_full_cache_serves_one_after_another() {
    // Each needs the whole cache at its end.
    let jobs = vec![job(50, 51); 6];
    let history = World {
        cells: 100,
        ..WORLD
    }
    .play(&jobs);
    assert_eq!(history.finished, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn the_youngest_gives_way_when_cells_run_out() {
    let history = World {
        cells: 120,
        ..WORLD
    }
    .play(&[job(20, 60), job(20, 60)]);
    assert_eq!(history.finished, [0, 1]);
    assert_eq!(history.preemptions, 1);
}

#[test]
fn a_reader_that_stopped_does_not_hold_the_cache() {
    let stopped = Job {
        credit: 1,
        pause: 10_000 * STEP,
        ..job(60, 2)
    };
    let history = World { cells: 64, ..WORLD }.play(&[stopped, job(40, 10)]);
    assert_eq!(history.finished, [1, 0]);
}

#[test]
fn more_decodes_than_budget_take_turns() {
    let limits = StepLimits {
        batch_tokens: 8,
        ..LIMITS
    };
    let jobs = vec![job(1, 40); 20];
    let history = World { limits, ..WORLD }.play(&jobs);
    // 20 jobs x 40 tokens at 8 a step is 100 steps; taking turns, none ends long before the others.
    assert!(history.steps <= 120, "{history:?}");
}

#[test]
fn prompts_are_not_starved_by_decodes_that_fill_the_budget() {
    let limits = StepLimits {
        batch_tokens: 8,
        ..LIMITS
    };
    let mut jobs = vec![job(1, 400); 16];
    jobs.push(Job {
        arrives: 50 * STEP,
        ..job(30, 1)
    });
    let history = World {
        limits,
        cells: 16_384,
        ..WORLD
    }
    .play(&jobs);
    assert_eq!(history.finished[0], 16);
}

#[test]
fn prompts_that_no_place_is_left_for_take_nothing_from_decodes() {
    let limits = StepLimits {
        batch_tokens: 16,
        max_sequences: 16,
        ..LIMITS
    };
    let mut jobs = vec![job(1, 400); 16];
    jobs.extend([job(8, 1); 4]);
    let history = World {
        limits,
        cells: 16_384,
        ..WORLD
    }
    .play(&jobs);
    let last = history.outputs[..16].iter().map(|times| times[399]).max();
    assert_eq!(last, Some(400 * STEP));
}

#[test]
fn a_prompt_takes_no_more_from_decodes_than_it_has_tokens() {
    let limits = StepLimits {
        batch_tokens: 16,
        ..LIMITS
    };
    let mut jobs = vec![job(1, 40); 16];
    jobs.push(Job {
        arrives: 10 * STEP,
        ..job(3, 1)
    });
    let history = World { limits, ..WORLD }.play(&jobs);
    // Of 640 tokens in steps of 16, three wait for the prompt.
    assert_eq!(history.first_output(&jobs, 16), STEP);
    assert_eq!(history.steps, 41);
}

#[test]
fn a_prompt_that_must_not_be_split_gets_a_step_of_its_own() {
    let limits = StepLimits {
        split_prompts: false,
        ..LIMITS
    };
    let history = World { limits, ..WORLD }.play(&[
        job(10, 500),
        Job {
            arrives: 5 * STEP,
            ..job(256, 1)
        },
    ]);
    assert_eq!(history.finished, [1, 0]);
    assert!(history.steps <= 502);
}

#[test]
fn what_is_computed_at_once_is_never_divided() {
    let row = |id, tokens, computed| Row {
        id: SequenceId(id),
        request: RequestId(id),
        owner: Owner::Request(RequestId(id)),
        turn: 0,
        request_turn: 0,
        rank: id as i64,
        queued: id as i64,
        slot: Some(Slot(id as u32)),
        tokens,
        computed,
        owned: computed,
        at_once: 0,
        deferred: false,
        remaining: 100,
        drafts: 0,
        has_credit: true,
        last_step: 0,
    };
    let (decode, tile) = (row(0, 8, 7), row(1, 150, 10));
    let plan = |at_once, batch_tokens, prompt_had_turn| {
        let limits = StepLimits {
            batch_tokens,
            ..LIMITS
        };
        let now = Now {
            step: 1,
            free_cells: 1_000,
            running: &[decode, Row { at_once, ..tile }, row(2, 80, 10)],
            waiting: &[],
            prompt_had_turn,
            turn: Slot(0),
            pace: Pace {
                cost: &CostModel::default(),
                target: None,
            },
        };
        let mut plan = StepPlan::default();
        plan_step(&limits, &now, &mut plan);
        let work = plan.work.iter().map(|work| (work.id.0, work.tokens));
        work.collect::<Vec<_>>()
    };
    assert_eq!(plan(0, 101, false), [(0, 1), (1, 96)]);
    assert_eq!(plan(100, 101, false), [(0, 1), (1, 100)]);
    assert_eq!(plan(100, 300, false), [(0, 1), (1, 140), (2, 70)]);
    // Beside a decode there is no room for it, so they take turns.
    assert_eq!(plan(100, 100, false), [(1, 100)]);
    assert_eq!(plan(100, 100, true), [(0, 1)]);
}

#[test]
fn drafts_take_what_prompts_leave() {
    let limits = StepLimits {
        batch_tokens: 16,
        ..LIMITS
    };
    let drafting = Row {
        id: SequenceId(0),
        request: RequestId(0),
        owner: Owner::Request(RequestId(0)),
        turn: 0,
        request_turn: 0,
        rank: 0,
        queued: 0,
        slot: Some(Slot(0)),
        tokens: 8,
        computed: 7,
        owned: 7,
        at_once: 0,
        deferred: false,
        remaining: 100,
        drafts: 6,
        has_credit: true,
        last_step: 0,
    };
    let prompt = |tokens| Row {
        id: SequenceId(1),
        request: RequestId(1),
        owner: Owner::Request(RequestId(1)),
        rank: 1,
        queued: 1,
        slot: None,
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
            turn: Slot(0),
            pace: Pace {
                cost: &CostModel::default(),
                target: None,
            },
        };
        let mut plan = StepPlan::default();
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
    assert_eq!(WORLD.play(&[drafting]).steps, 11);
}
