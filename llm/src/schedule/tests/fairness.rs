//! What a request of many sequences leaves to others, and how long the last in rank waits.

use super::super::*;
use super::simulate::{Job, LIMITS, STEP, WORLD, World, job};
use crate::protocol::Tenant;

/// A world with so many places.
fn places(max_sequences: u32) -> World {
    World {
        limits: StepLimits {
            max_sequences,
            ..LIMITS
        },
        cells: 100_000,
        ..WORLD
    }
}

/// So many sequences of one request.
fn request(number: u64, sequences: usize, each: Job) -> Vec<Job> {
    let one = Job {
        request: Some(number),
        ..each
    };
    vec![one; sequences]
}

fn at(step: u64, job: Job) -> Job {
    Job {
        arrives: step * STEP,
        ..job
    }
}

#[test]
fn a_request_of_one_prompt_has_a_place_at_once_beside_one_of_five_hundred() {
    for max_sequences in [2, 4, 64, 256] {
        let mut jobs = request(0, 500, job(20, 300));
        jobs.push(at(400, job(20, 5)));
        let history = places(max_sequences).play(&jobs);
        let waited = history.first_output(&jobs, 500);
        assert!(waited <= 3 * STEP, "{waited} with {max_sequences} places");
        // It took a place once at most.
        assert!(history.preemptions <= 1, "{max_sequences} places");
    }
}

#[test]
fn with_a_single_place_the_next_turn_is_anothers() {
    let mut jobs = request(0, 5, job(10, 100));
    jobs.push(at(150, job(10, 5)));
    jobs.push(at(160, job(10, 5)));
    assert_eq!(places(1).play(&jobs).finished, [0, 1, 5, 6, 2, 3, 4]);
}

#[test]
fn requests_of_many_share_the_places() {
    let mut jobs = request(0, 60, job(10, 200));
    jobs.extend(request(1, 60, at(100, job(10, 200))));
    jobs.extend(request(2, 60, at(100, job(10, 200))));
    jobs.push(at(900, job(10, 5)));
    let history = places(8).play(&jobs);
    assert!(history.first_output(&jobs, 180) <= 3 * STEP);
    let ended = |request: u64, first: usize| {
        let of = |id: &&u64| jobs[**id as usize].request == Some(request);
        history.finished[..first].iter().filter(of).count()
    };
    // After the beginning, each has a third of what ends.
    for request in 0..3 {
        let count = ended(request, 100);
        assert!((25..=45).contains(&count), "{request}: {count}");
    }
    // A place is taken once for each request that came, not again and again.
    assert!(history.preemptions <= 3, "{}", history.preemptions);
}

#[test]
fn a_request_that_fills_the_cache_makes_room() {
    let world = World {
        cells: 800,
        ..places(8)
    };
    let mut jobs = request(0, 100, job(60, 300));
    jobs.push(at(500, job(100, 10)));
    let history = world.play(&jobs);
    let waited = history.first_output(&jobs, 100);
    assert!(waited <= 5 * STEP, "{waited}");
    assert_eq!(history.finished.len(), 101);
}

#[test]
fn decodes_of_one_request_that_fill_the_budget_leave_room_for_the_prompt_of_another() {
    let limits = StepLimits {
        batch_tokens: 16,
        max_sequences: 16,
        ..LIMITS
    };
    let world = World {
        limits,
        cells: 100_000,
        ..WORLD
    };
    let mut jobs = request(0, 40, job(4, 400));
    jobs.push(at(300, job(64, 20)));
    let waited = world.play(&jobs).first_output(&jobs, 40);
    assert!(waited <= 80 * STEP, "{waited}");
}

#[test]
fn prompts_that_must_not_be_split_take_turns_too() {
    let mut world = places(4);
    world.limits.split_prompts = false;
    let mut jobs = request(0, 50, job(100, 200));
    jobs.push(at(90, job(200, 5)));
    let waited = world.play(&jobs).first_output(&jobs, 50);
    assert!(waited <= 6 * STEP, "{waited}");
}

#[test]
fn a_request_that_nobody_competes_with_has_all_places() {
    let jobs = request(0, 64, job(4, 100));
    let history = places(64).play(&jobs);
    assert_eq!(history.preemptions, 0);
    assert!(history.steps <= 104, "{}", history.steps);
}

#[test]
fn a_flood_of_the_highest_priority_holds_up_the_lowest_for_a_bounded_time() {
    // As far as priorities from -10 to 10 reach, with a tenth of a second of waiting for each
    // point.
    const POINT: i64 = 100_000;
    let low = Job {
        head_start: -10 * POINT,
        ..job(10, 10)
    };
    let mut jobs = vec![low];
    // More than one place can serve, for three times as long.
    jobs.extend((0..600).map(|number| Job {
        arrives: number * 10 * STEP,
        head_start: 10 * POINT,
        ..job(10, 10)
    }));
    let waited = places(1).play(&jobs).first_output(&jobs, 0);
    let bound = 20 * POINT as u64;
    // What came before that time has a better rank and still has to be served.
    assert!(waited <= bound + bound / 5, "{waited}");
    assert!(waited >= bound / 2, "a priority means something: {waited}");
}

#[test]
fn extreme_ranks_do_not_overflow() {
    let mut jobs = request(0, 3, job(10, 5));
    for (job, head_start) in jobs.iter_mut().zip([i64::MIN + 1, i64::MAX, 0]) {
        job.head_start = head_start;
    }
    assert_eq!(places(1).play(&jobs).finished.len(), 3);
}

/// The same job of a tenant.
fn of(number: u64, weight: u32, job: Job) -> Job {
    let weight = weight.try_into().expect("above 0");
    Job {
        tenant: Some(Tenant {
            number,
            weight,
            places: 1,
        }),
        ..job
    }
}

#[test]
fn a_tenant_has_a_place_at_once_beside_a_thousand_requests_of_another() {
    for max_sequences in [2, 4, 64] {
        let mut jobs = vec![of(0, 1, job(20, 40)); 1_000];
        jobs.push(of(1, 1, at(200, job(20, 5))));
        let idle = places(max_sequences).play(&[of(1, 1, job(20, 5))]);
        let idle = idle.outputs[0][0];
        let history = places(max_sequences).play(&jobs);
        let waited = history.first_output(&jobs, 1_000);
        assert!(
            waited <= 3 * idle + STEP,
            "{waited} with {max_sequences} places"
        );
        assert!(history.preemptions <= 1, "{max_sequences} places");
    }
}

#[test]
fn with_a_single_place_tenants_alternate() {
    let mut jobs = vec![of(0, 1, job(10, 10)); 6];
    jobs.extend(vec![of(1, 1, at(5, job(10, 10))); 3]);
    let finished = places(1).play(&jobs).finished;
    assert_eq!(finished, [0, 6, 1, 7, 2, 8, 3, 4, 5]);
}

#[test]
fn a_tenant_has_places_by_its_weight() {
    let mut jobs = vec![of(0, 1, job(10, 100)); 200];
    jobs.extend(vec![of(1, 3, job(10, 100)); 200]);
    let history = places(8).play(&jobs);
    let heavy = history.finished[..100].iter().filter(|id| **id >= 200);
    let heavy = heavy.count();
    assert!((70..=80).contains(&heavy), "{heavy} of 100");
}

#[test]
fn requests_of_one_tenant_take_turns_beside_those_of_another() {
    let mut jobs: Vec<Job> = request(0, 100, of(0, 1, job(10, 200)));
    jobs.extend(vec![of(1, 1, job(10, 200)); 100]);
    jobs.push(of(0, 1, at(300, job(10, 5))));
    let history = places(8).play(&jobs);
    let waited = history.first_output(&jobs, 200);
    // No later than the next place of its tenant that becomes free.
    assert!(waited <= 210 * STEP, "{waited}");
}

#[test]
fn a_tenant_with_a_place_does_not_wait_for_one_with_nearly_all() {
    for weight in [1, 3] {
        let mut jobs: Vec<Job> = vec![of(0, 1, job(10, 2_000)); 100];
        jobs.extend(vec![of(1, weight, at(300, job(10, 200))); 100]);
        jobs.push(of(1, weight, at(310, job(10, 5))));
        let history = places(64).play(&jobs);
        let begun = (100..200).filter(|id| history.first_output(&jobs, *id) <= 40 * STEP);
        let begun = begun.count() as u32;
        // A third of the places, or what its weight gives: the others follow as places become free.
        assert!(
            (20..=64 * weight / (weight + 1)).contains(&begun),
            "{begun}"
        );
        // One place is taken for each of them, once.
        assert!(history.preemptions <= 64, "{}", history.preemptions);
    }
}

#[test]
fn a_tenant_alone_is_served_as_requests_without_tenants() {
    let plain: Vec<Job> = (0..40)
        .map(|number| at(number * 3, job(10 + 7 * (number as u32 % 5), 30)))
        .collect();
    let one: Vec<Job> = plain.iter().map(|job| of(7, 2, *job)).collect();
    let world = places(8);
    assert_eq!(world.play(&plain).outputs, world.play(&one).outputs);
}
