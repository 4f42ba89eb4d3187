//! An engine on a virtual clock: plays a workload through the scheduler, with a simulated cache and
//! machine, and checks every step.

use std::collections::BTreeMap;

use super::super::cost::CostModel;
use super::super::turns::{Owner, OwnerTurns, queue_again};
use super::super::*;
use crate::protocol::Tenant;

/// A sequence of a workload. Times are microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) prompt: u32,
    pub(super) generate: u32,
    pub(super) arrives: u64,
    /// How much earlier than it arrived it ranks.
    pub(super) head_start: i64,
    /// Outputs it may make before it sits out, and for how long it then does.
    pub(super) credit: u32,
    pub(super) pause: u64,
    /// Drafts with each decode, and how many of them prove right.
    pub(super) drafts: u32,
    pub(super) right: u32,
    /// The request it is a part of; none for one of its own.
    pub(super) request: Option<u64>,
    /// Who it is for; none for nobody in particular.
    pub(super) tenant: Option<Tenant>,
}

/// A job that is there from the beginning and always read.
pub(super) fn job(prompt: u32, generate: u32) -> Job {
    Job {
        prompt,
        generate,
        arrives: 0,
        head_start: 0,
        credit: u32::MAX,
        pause: 0,
        drafts: 0,
        right: 0,
        request: None,
        tenant: None,
    }
}

/// What runs the jobs.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub(super) limits: StepLimits,
    pub(super) cells: u32,
    pub(super) target: Option<u64>,
    /// How long a step takes, in microseconds.
    pub(super) machine: fn(&StepSize) -> f64,
}

pub(super) const LIMITS: StepLimits = StepLimits {
    batch_tokens: 256,
    max_sequences: 256,
    split_prompts: true,
};

/// Time of a step on a machine that does not mind its size.
pub(super) const STEP: u64 = 1_000;

pub(super) const WORLD: World = World {
    limits: LIMITS,
    cells: 4_096,
    target: None,
    machine: |_| STEP as f64,
};

#[derive(Clone, Copy, Debug)]
struct Live {
    row: Row,
    credit: u32,
    resumes: u64,
}

/// Everything that happened.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Steps that computed something.
    pub(super) steps: u64,
    pub(super) end: u64,
    pub(super) first_admissions: Vec<u64>,
    pub(super) finished: Vec<u64>,
    pub(super) preemptions: u64,
    /// When each job got its outputs.
    pub(super) outputs: Vec<Vec<u64>>,
}

impl History {
    /// Time from a job's arrival to its first output.
    pub(super) fn first_output(&self, jobs: &[Job], job: usize) -> u64 {
        self.outputs[job][0] - jobs[job].arrives
    }

    /// The times between the outputs of these jobs, in order of length.
    pub(super) fn gaps(&self, jobs: std::ops::Range<usize>) -> Vec<u64> {
        let pairs = self.outputs[jobs].iter().flat_map(|times| times.windows(2));
        let mut gaps: Vec<u64> = pairs.map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        gaps
    }
}

impl World {
    /// Runs the jobs to their end. Panics if a step breaks a rule of the scheduler.
    pub(super) fn play(&self, jobs: &[Job]) -> History {
        let mut live: BTreeMap<u64, Live> = BTreeMap::new();
        let mut plan = StepPlan::default();
        let mut turns = OwnerTurns::default();
        let mut cost = CostModel::default();
        let mut arrived = vec![false; jobs.len()];
        let mut history = History {
            outputs: vec![Vec::new(); jobs.len()],
            ..History::default()
        };
        let mut clock = 0;
        // A step in which something runs advances at least one; recomputation can only repeat what
        // others did.
        let tokens = |job: &Job| u64::from(job.prompt + job.generate) + 2;
        let most_steps = 10 + 8 * jobs.iter().map(tokens).sum::<u64>() * jobs.len() as u64;
        for step in 1.. {
            assert!(step <= most_steps, "no end after {step} steps: {live:?}");
            for (index, job) in jobs.iter().enumerate() {
                if job.arrives <= clock && !arrived[index] {
                    arrived[index] = true;
                    live.insert(index as u64, begin(index, job));
                }
            }
            for (id, sequence) in &mut live {
                if sequence.credit == 0 && sequence.resumes <= clock {
                    sequence.credit = jobs[*id as usize].credit;
                }
                sequence.row.has_credit = sequence.credit > 0;
            }
            if live.is_empty() && arrived.iter().all(|arrived| *arrived) {
                history.end = clock;
                return history;
            }
            let (mut running, mut waiting) = (rows(&live, true), rows(&live, false));
            turns.arrange(&mut running, &mut waiting);
            waiting.truncate(self.limits.max_sequences as usize);
            let used: u32 = running.iter().map(|row| row.computed).sum();
            let now = Now {
                step,
                free_cells: self.cells - used,
                running: &running,
                waiting: &waiting,
                prompt_had_turn: plan.prompt_turn,
                turn: plan.next_turn,
                pace: Pace {
                    cost: &cost,
                    target: self.target,
                },
            };
            plan_step(&self.limits, &now, &mut plan);
            check(&self.limits, &now, &plan);
            if plan.work.is_empty() && plan.preempt.is_empty() {
                let arrivals = jobs.iter().map(|job| job.arrives);
                let resumptions = live.values().map(|sequence| sequence.resumes);
                let events = arrivals.chain(resumptions).filter(|time| *time > clock);
                clock = events.min().expect("something is still to come");
                continue;
            }
            history.preemptions += plan.preempt.len() as u64;
            for id in &plan.preempt {
                let sequence = live.get_mut(&id.0).expect("exists");
                sequence.row.slot = None;
                sequence.row.computed = 0;
            }
            for id in &plan.admit {
                let taken = |slot| live.values().any(|other| other.row.slot == Some(slot));
                let free = (0..self.limits.max_sequences)
                    .map(Slot)
                    .find(|slot| !taken(*slot));
                let sequence = live.get_mut(&id.0).expect("exists");
                sequence.row.slot = free;
                sequence.row.last_step = step;
                if !history.first_admissions.contains(&id.0) {
                    history.first_admissions.push(id.0);
                }
            }
            if plan.work.is_empty() {
                continue;
            }
            let micros = (self.machine)(&plan.size);
            cost.observe(&plan.size, micros);
            clock += micros as u64;
            history.steps += 1;
            for work in &plan.work {
                let job = &jobs[work.id.0 as usize];
                let sequence = live.get_mut(&work.id.0).expect("exists");
                sequence.row.computed += work.tokens;
                sequence.row.last_step = step;
                if sequence.row.computed < sequence.row.tokens {
                    continue;
                }
                history.outputs[work.id.0 as usize].push(clock);
                let right = work.drafts.min(job.right);
                sequence.row.computed += right;
                sequence.row.tokens += right + 1;
                sequence.row.remaining -= right + 1;
                sequence.credit = sequence.credit.saturating_sub(1);
                sequence.resumes = clock + job.pause;
                if sequence.row.remaining == 0 {
                    let owner = sequence.row.owner;
                    live.remove(&work.id.0);
                    history.finished.push(work.id.0);
                    let waiting = live
                        .iter_mut()
                        .filter(|(_, other)| other.row.slot.is_none());
                    for (id, other) in waiting.filter(|(_, other)| other.row.owner == owner) {
                        let head_start = jobs[*id as usize].head_start;
                        other.row.queued = queue_again(other.row.queued, head_start, clock as i64);
                    }
                }
            }
        }
        unreachable!("the loop has no end of its own")
    }
}

fn begin(index: usize, job: &Job) -> Live {
    // No two jobs without a request have the same.
    let request = RequestId(job.request.unwrap_or(1_000_000 + index as u64));
    let rank = (job.arrives as i64).saturating_sub(job.head_start);
    let row = Row {
        id: SequenceId(index as u64),
        request,
        owner: job.tenant.map_or(Owner::Request(request), Owner::Tenant),
        turn: 0,
        request_turn: 0,
        rank,
        queued: rank,
        slot: None,
        tokens: job.prompt,
        computed: 0,
        owned: 0,
        at_once: 0,
        deferred: false,
        remaining: job.generate,
        drafts: job.drafts,
        has_credit: true,
        last_step: 0,
    };
    Live {
        row,
        credit: job.credit,
        resumes: 0,
    }
}

fn rows(live: &BTreeMap<u64, Live>, run: bool) -> Vec<Row> {
    let own = live
        .values()
        .filter(|sequence| sequence.row.slot.is_some() == run);
    own.map(|sequence| Row {
        owned: sequence.row.computed,
        ..sequence.row
    })
    .collect()
}

fn check(limits: &StepLimits, now: &Now<'_>, plan: &StepPlan) {
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
    if plan.preempt.is_empty() && !plan.prompt_turn && decodes * 8 <= limits.batch_tokens as usize {
        assert!(
            now.running.iter().filter(is_decode).all(has_work),
            "a decode sits out: {now:?} {plan:?}"
        );
    }
    if plan.preempt.is_empty() {
        let mut in_slots: Vec<_> = now.running.iter().filter(is_decode).collect();
        in_slots.sort_unstable_by_key(|row| row.slot);
        let takes_part: Vec<bool> = in_slots.iter().map(|row| has_work(row)).collect();
        let next = takes_part.iter().cycle().skip(1);
        let begins = takes_part.iter().zip(next).filter(|(a, b)| !**a && **b);
        assert!(
            begins.count() <= 1,
            "gaps between decodes in round-robin: {now:?} {plan:?}"
        );
    }
    assert_eq!(
        plan.size.prompt_tokens + plan.size.decode_tokens,
        tokens,
        "the batch is not what the plan says: {plan:?}"
    );
    assert!(
        plan.prompt_turn || plan.size.prompt_tokens <= plan.prompt_limit,
        "prompts exceed their limit: {plan:?}"
    );
    // A place is taken from an owner that keeps one, or from a sequence that its client does not
    // read.
    for row in now.running.iter().filter(preempted) {
        let mut siblings = now.running.iter().filter(|other| other.id != row.id);
        let has_another = siblings.any(|other| other.owner == row.owner);
        let admits_one_with_fewer = (now.waiting.iter())
            .any(|other| other.may_replace(row) && plan.admit.contains(&other.id));
        assert!(
            plan.admit.is_empty() || !row.has_credit || (admits_one_with_fewer && has_another),
            "a place is taken from an owner that has no other: {now:?} {plan:?}"
        );
    }
    // Nobody in the queue overtakes more than the order of prompts allows.
    let token_micros = if limits.split_prompts {
        now.pace.cost.token_micros()
    } else {
        0.0
    };
    let orders = |admitted: bool| {
        now.waiting
            .iter()
            .filter(move |row| row.may_join() && plan.admit.contains(&row.id) == admitted)
            .map(move |row| row.prompt_order(token_micros))
    };
    assert!(
        orders(true).max() < orders(false).min()
            || orders(true).max().is_none()
            || orders(false).min().is_none(),
        "admitted out of order: {now:?} {plan:?}"
    );
}
