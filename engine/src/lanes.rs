//! Lanes of executors. Graphs that share an executor, and the tenants of each graph, are served
//! round-robin. Waiting jobs are counted and bounded.
//!
//! An executor runs jobs in order of arrival; without lanes, a busy graph or tenant would delay
//! everybody else. Jobs are not interrupted, so no tenant may use all threads of the executor
//! `cpu`: a tenant without a running job finds a free thread.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    error::{Error, Result},
    executor::{Executor, Job},
    lock::lock,
};

/// Number of waiting jobs per graph at which new sessions are refused. Each job holds a request in
/// memory; at 10 ms a job, two threads need 5 s for this many. Running sessions are not refused:
/// they have at most one job per node.
const MAX_WAITING: usize = 1024;

/// Number of waiting jobs per tenant of a graph at which its new sessions are refused. Leaves room
/// for other tenants.
const MAX_WAITING_OF_A_TENANT: usize = MAX_WAITING / 2;

/// A lane and a tenant, whose jobs run in order of arrival. Sessions without a tenant share one
/// owner.
type JobOwner = (u64, Tenant);

type Tenant = Option<Arc<str>>;

/// An executor shared by graphs.
pub(crate) struct Junction {
    executor: Arc<dyn Executor>,
    share: Option<Share>,
    queues: Mutex<Queues>,
}

/// Limits on the threads of an executor that one tenant can use.
pub(crate) struct Share {
    pub(crate) threads: usize,
    /// Maximum number of threads per tenant.
    pub(crate) most: usize,
}

#[derive(Default)]
struct Queues {
    /// Waiting jobs of each owner, with their numbers.
    jobs: HashMap<JobOwner, VecDeque<(u64, Job)>>,
    /// Owners with waiting jobs, each once, in order of their turns.
    turns: VecDeque<JobOwner>,
    /// Number of running jobs per tenant, without zeros.
    running: HashMap<Tenant, usize>,
    /// Turns postponed to the end of a running job, because the tenants of all waiting jobs were at
    /// their limit.
    left: usize,
    next_lane: u64,
    next_job: u64,
}

/// A queue of jobs for an executor, usually one per graph.
pub struct Lane {
    name: String,
    number: u64,
    junction: Arc<Junction>,
    refused: AtomicU64,
}

impl Queues {
    /// Takes a job of the owner whose turn it is: the job `number` if it belongs to this owner,
    /// else its oldest.
    fn take(&mut self, number: Option<u64>, share: Option<&Share>) -> Option<(Tenant, Job)> {
        let running: usize = self.running.values().sum();
        let may_run = |(_, tenant): &JobOwner| match (share, self.running.get(tenant)) {
            (Some(Share { threads, most }), Some(own)) => own < most && running + 1 < *threads,
            _ => true,
        };
        let turn = self.turns.iter().position(may_run)?;
        let owner = self.turns.remove(turn)?;
        let waiting = self.jobs.get_mut(&owner)?;
        let own = waiting.iter().position(|(other, _)| Some(*other) == number);
        let (_, job) = waiting.remove(own.unwrap_or(0))?;
        let tenant = owner.1.clone();
        if waiting.is_empty() {
            self.jobs.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        *self.running.entry(tenant.clone()).or_default() += 1;
        Some((tenant, job))
    }

    fn ended(&mut self, tenant: &Tenant) {
        if let Some(running) = self.running.get_mut(tenant) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(tenant);
            }
        }
    }
}

impl Junction {
    pub(crate) fn new(executor: Arc<dyn Executor>) -> Arc<Self> {
        Self::shared(executor, None)
    }

    /// Shares an executor, within limits if there are any.
    pub(crate) fn shared(executor: Arc<dyn Executor>, share: Option<Share>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            share,
            queues: Mutex::default(),
        })
    }

    pub(crate) fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// Adds a lane. `name` is the name of the executor.
    pub(crate) fn lane(self: &Arc<Self>, name: &str) -> Lane {
        let mut queues = lock(&self.queues);
        let number = queues.next_lane;
        queues.next_lane += 1;
        Lane {
            name: name.to_owned(),
            number,
            junction: Arc::clone(self),
            refused: AtomicU64::new(0),
        }
    }

    /// Runs the job whose turn it is, then jobs whose turns were postponed. Called once for each
    /// job, with its number.
    fn run_next(&self, number: u64) {
        let mut next = {
            let mut queues = lock(&self.queues);
            let next = queues.take(Some(number), self.share.as_ref());
            queues.left += usize::from(next.is_none());
            next
        };
        while let Some((tenant, job)) = next {
            let ended = catch_unwind(AssertUnwindSafe(job));
            let mut queues = lock(&self.queues);
            queues.ended(&tenant);
            next = (queues.left > 0 && ended.is_ok())
                .then(|| queues.take(None, self.share.as_ref()))
                .flatten();
            queues.left -= usize::from(next.is_some());
            drop(queues);
            if let Err(panic) = ended {
                resume_unwind(panic);
            }
        }
    }
}

impl Lane {
    /// Queues a job of a tenant and returns its number.
    pub fn spawn(&self, tenant: Option<&Arc<str>>, job: Job) -> u64 {
        let owner = (self.number, tenant.cloned());
        let number = {
            let mut queues = lock(&self.junction.queues);
            let number = queues.next_job;
            queues.next_job += 1;
            let Queues { jobs, turns, .. } = &mut *queues;
            let waiting = jobs.entry(owner.clone()).or_default();
            if waiting.is_empty() {
                turns.push_back(owner);
            }
            waiting.push_back((number, job));
            number
        };
        let junction = Arc::clone(&self.junction);
        self.junction
            .executor
            .spawn(Box::new(move || junction.run_next(number)));
        number
    }

    /// Returns the number of jobs of its tenant in the lane that wait before this job; `None` if it
    /// has begun.
    pub(crate) fn before(&self, number: u64) -> Option<usize> {
        let queues = lock(&self.junction.queues);
        let place =
            |waiting: &VecDeque<(u64, Job)>| waiting.iter().position(|(other, _)| *other == number);
        self.own(&queues).find_map(place)
    }

    /// Starts the threads of the executor if necessary.
    ///
    /// # Errors
    /// If the system cannot start more threads.
    pub fn start(&self) -> Result<()> {
        self.junction.executor.start()
    }

    /// Admits a new session of a tenant, before it has a job.
    ///
    /// # Errors
    /// [`Kind::ResourceExhausted`](crate::Kind::ResourceExhausted) if too many jobs wait.
    pub fn admit(&self, tenant: Option<&Arc<str>>) -> Result<()> {
        let message = if self.waiting() >= MAX_WAITING {
            format!(
                "too many waiting jobs for the executor `{}`: this graph has reached its limit of {MAX_WAITING}",
                self.name
            )
        } else if let Some(tenant) = tenant
            && self.waiting_of(&(self.number, Some(Arc::clone(tenant)))) >= MAX_WAITING_OF_A_TENANT
        {
            format!(
                "too many waiting jobs for the executor `{}`: `{tenant}` has reached its limit of {MAX_WAITING_OF_A_TENANT} in this graph",
                self.name
            )
        } else {
            return Ok(());
        };
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Error::exhausted(message))
    }

    /// Returns the number of waiting jobs of this lane.
    pub(crate) fn waiting(&self) -> usize {
        let queues = lock(&self.junction.queues);
        self.own(&queues).map(VecDeque::len).sum()
    }

    fn own<'a>(&self, queues: &'a Queues) -> impl Iterator<Item = &'a VecDeque<(u64, Job)>> {
        let number = self.number;
        let all = queues.jobs.iter();
        let own = all.filter(move |(owner, _)| owner.0 == number);
        own.map(|(_, waiting)| waiting)
    }

    fn waiting_of(&self, owner: &JobOwner) -> usize {
        let queues = lock(&self.junction.queues);
        queues.jobs.get(owner).map_or(0, VecDeque::len)
    }

    /// Returns the number of refused sessions.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.name)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualExecutor;

    #[test]
    fn graphs_that_share_an_executor_take_turns() {
        let executor = Arc::new(ManualExecutor::default());
        let junction = Junction::new(Arc::clone(&executor) as Arc<dyn Executor>);
        let (busy, calm) = (junction.lane("cpu"), junction.lane("cpu"));
        let order = Arc::new(Mutex::new(Vec::new()));
        let say = |what: &'static str| -> Job {
            let order = Arc::clone(&order);
            Box::new(move || order.lock().expect("no panic").push(what))
        };
        (0..1_000).for_each(|_| _ = busy.spawn(None, say("busy")));
        calm.spawn(None, say("first"));
        calm.spawn(None, say("second"));
        assert_eq!((busy.waiting(), calm.waiting()), (1_000, 2));
        (0..4).for_each(|_| assert!(executor.run_one()));
        assert_eq!(
            *order.lock().expect("no panic"),
            ["busy", "first", "busy", "second"]
        );
        while executor.run_one() {}
        assert_eq!(order.lock().expect("no panic").len(), 1_002);
        assert_eq!((busy.waiting(), calm.waiting()), (0, 0));
    }

    #[test]
    fn tenants_of_a_graph_take_turns_and_never_have_all_threads() {
        let executor = Arc::new(ManualExecutor::default());
        let share = Share {
            threads: 4,
            most: 2,
        };
        let junction = Junction::shared(Arc::clone(&executor) as Arc<dyn Executor>, Some(share));
        let lane = junction.lane("cpu");
        let tenants = ["a", "b", "c"].map(Arc::<str>::from);
        let order = Arc::new(Mutex::new(Vec::new()));
        let say = |tenant: &Arc<str>| -> Job {
            let (order, tenant) = (Arc::clone(&order), Arc::clone(tenant));
            Box::new(move || order.lock().expect("no panic").push(tenant))
        };
        let [a, b, c] = &tenants;
        // Jobs of others that run, each in the job before.
        let runs = |tenants: &[&Arc<str>]| {
            let mut queues = lock(&junction.queues);
            queues.running.clear();
            for tenant in tenants {
                *queues.running.entry(Some(Arc::clone(tenant))).or_default() += 1;
            }
        };
        (0..3).for_each(|_| _ = lane.spawn(Some(a), say(a)));
        lane.spawn(Some(b), say(b));
        let said = || std::mem::take(&mut *order.lock().expect("no panic"));
        runs(&[a, a]);
        assert!(executor.run_one());
        assert_eq!(said(), [Arc::clone(b)], "a has its share");
        runs(&[a, a]);
        assert!(executor.run_one());
        assert_eq!(said(), [], "the turn is left");
        runs(&[a, b, b]);
        assert!(executor.run_one());
        assert_eq!(said(), [], "the last thread is for those that have none");
        lane.spawn(Some(c), say(c));
        assert!(executor.run_one());
        assert_eq!(said(), [Arc::clone(c)]);
        runs(&[]);
        assert!(executor.run_one());
        assert_eq!(said(), [a, a, a].map(Arc::clone), "and what was left");
        assert_eq!(lane.waiting(), 0);
    }

    #[test]
    fn a_full_lane_lets_nobody_begin_and_others_do() {
        let junction = Junction::new(Arc::new(ManualExecutor::default()));
        let (busy, calm) = (junction.lane("cpu"), junction.lane("cpu"));
        for _ in 0..MAX_WAITING {
            busy.admit(None).expect("there is room");
            busy.spawn(None, Box::new(|| {}));
        }
        let refusal = busy.admit(None).expect_err("as many wait as may");
        assert_eq!(refusal.kind, crate::Kind::ResourceExhausted);
        assert_eq!((busy.refused(), calm.refused()), (1, 0));
        calm.admit(None).expect("its own lane is empty");
    }
}
