//! Threads that compile constraints, common to all engines of the process. Tenants take turns. A
//! compile beyond the deadline is abandoned: it cannot be interrupted, so its thread runs on until
//! it ends. Until then, no other compile of its tenant begins, and none at all if the maximum
//! number is abandoned.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::compiler::{CompileError, CompiledConstraint, ConstraintError};
use super::matching::FAILED;
use crate::debug::show_fields;
use crate::lock::lock;
use crate::protocol::Tenant;
use crate::worker::catch;

/// Maximum number of concurrent compiles, each of another tenant, including abandoned ones.
const MOST_RUNNING: usize = 2;
/// Maximum number of waiting compiles per tenant.
const MOST_WAITING: usize = 512;
/// Maximum duration of a compile.
const DEADLINE: Duration = Duration::from_secs(10);

pub(super) type Outcome<T = CompiledConstraint> = Result<T, CompileError>;
type CompileWork<T> = Box<dyn FnOnce() -> Outcome<T> + Send>;
type Tell<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

/// The compiles of all engines of the process.
pub(super) static COMPILES: LazyLock<Arc<Turns<CompiledConstraint>>> =
    LazyLock::new(|| Arc::new(Turns::new(DEADLINE)));

/// A queue of work in which tenants take turns.
pub(super) struct Turns<T> {
    deadline: Duration,
    state: Mutex<TurnsState<T>>,
}

struct TurnsState<T> {
    next: u64,
    threads: usize,
    running: Vec<(u64, Option<Tenant>, Instant)>,
    /// Waiting jobs. The first of a tenant without a running job is next.
    waiting: VecDeque<CompileJob<T>>,
    /// Abandoned jobs that have not ended.
    left: Vec<(u64, Option<Tenant>)>,
}

struct CompileJob<T> {
    id: u64,
    tenant: Option<Tenant>,
    stack: usize,
    work: CompileWork<T>,
    tell: Tell<T>,
}

impl<T> TurnsState<T> {
    fn may_run(&self, tenant: Option<Tenant>) -> bool {
        let mut running = self.running.iter();
        self.running.len() + self.left.len() < MOST_RUNNING
            && !running.any(|(_, other, _)| *other == tenant)
    }

    /// Returns true if no job of a tenant can begin until abandoned ones have ended.
    fn is_full(&self, tenant: Option<Tenant>) -> bool {
        let mut left = self.left.iter();
        self.left.len() >= MOST_RUNNING || left.any(|(_, other)| *other == tenant)
    }

    /// Takes the next job. Further jobs of its tenant move behind those of all others.
    fn take(&mut self) -> Option<CompileJob<T>> {
        let next = |job: &CompileJob<T>| self.may_run(job.tenant);
        let job = self.waiting.iter().position(next)?;
        let job = self.waiting.remove(job)?;
        let waiting = std::mem::take(&mut self.waiting);
        let is_other = |other: &CompileJob<T>| other.tenant != job.tenant;
        let (others, own): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_other);
        self.waiting.extend(others.into_iter().chain(own));
        self.running.push((job.id, job.tenant, Instant::now()));
        Some(job)
    }
}

impl<T: Send + 'static> Turns<T> {
    fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            state: Mutex::new(TurnsState {
                next: 0,
                threads: 0,
                running: Vec::new(),
                waiting: VecDeque::new(),
                left: Vec::new(),
            }),
        }
    }

    /// Queues work, which runs on a stack of `stack` bytes. Dropping the returned place removes it
    /// from the queue.
    pub(super) fn submit(
        self: &Arc<Self>,
        tenant: Option<Tenant>,
        stack: usize,
        work: CompileWork<T>,
        tell: Tell<T>,
    ) -> Result<CompilePlace<T>, CompileError> {
        let mut state = lock(&self.state);
        if state.is_full(tenant) {
            return Err(full());
        }
        let own = state.waiting.iter().filter(|job| job.tenant == tenant);
        if own.count() >= MOST_WAITING {
            let why = format!("{MOST_WAITING} constraints are waiting to be compiled, the maximum");
            return Err(CompileError::Busy(why));
        }
        let id = state.next;
        state.next += 1;
        state.waiting.push_back(CompileJob {
            id,
            tenant,
            stack,
            work,
            tell,
        });
        if state.threads < MOST_RUNNING && state.may_run(tenant) {
            let turns = Arc::clone(self);
            let thread = thread::Builder::new().name("constraints".to_owned());
            if let Err(error) = thread.spawn(move || turns.run()) {
                state.waiting.pop_back();
                return Err(no_thread(&error));
            }
            state.threads += 1;
        }
        drop(state);
        let turns = Arc::clone(self);
        Ok(CompilePlace { turns, id })
    }

    fn run(self: Arc<Self>) {
        loop {
            let mut state = lock(&self.state);
            if !state.left.is_empty() {
                let waiting = std::mem::take(&mut state.waiting).into_iter();
                let (refused, others): (Vec<_>, Vec<_>) =
                    waiting.partition(|job| state.is_full(job.tenant));
                state.waiting = others.into();
                drop(state);
                for job in refused {
                    (job.tell)(Err(full()));
                }
                state = lock(&self.state);
            }
            let Some(job) = state.take() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            let outcome = self.run_job((job.id, job.tenant), job.stack, job.work);
            lock(&self.state).running.retain(|(id, ..)| *id != job.id);
            (job.tell)(outcome);
        }
    }

    fn run_job(
        self: &Arc<Self>,
        (id, tenant): (u64, Option<Tenant>),
        stack: usize,
        work: CompileWork<T>,
    ) -> Outcome<T> {
        let (done, outcome) = mpsc::sync_channel::<Outcome<T>>(1);
        let turns = Arc::clone(self);
        let thread = thread::Builder::new().stack_size(stack);
        let thread = thread.name("constraint".to_owned());
        thread
            .spawn(move || {
                let panicked = |_| Err(ConstraintError(FAILED.to_owned()).into());
                // There is no receiver if the job was abandoned.
                drop(done.send(catch(work).unwrap_or_else(panicked)));
                lock(&turns.state).left.retain(|(other, _)| *other != id);
            })
            .map_err(|error| no_thread(&error))?;
        if let Ok(outcome) = outcome.recv_timeout(self.deadline) {
            return outcome;
        }
        let mut state = lock(&self.state);
        // The job may have ended in between.
        outcome.try_recv().unwrap_or_else(|_| {
            state.left.push((id, tenant));
            Err(CompileError::TooLong(self.deadline))
        })
    }
}

fn full() -> CompileError {
    let why = "too many constraints beyond their time limit are still being compiled";
    CompileError::Busy(why.to_owned())
}

fn no_thread(error: &std::io::Error) -> CompileError {
    CompileError::NoThread(format!("no thread to compile it on: {error}"))
}

/// Place of a job in the queue.
pub(super) struct CompilePlace<T> {
    turns: Arc<Turns<T>>,
    id: u64,
}

impl<T> CompilePlace<T> {
    fn standing(&self) -> Standing {
        let state = lock(&self.turns.state);
        let mut running = state.running.iter();
        if let Some((.., since)) = running.find(|(id, ..)| *id == self.id) {
            return Standing::Runs(since.elapsed());
        }
        let mut waiting = state.waiting.iter();
        match waiting.position(|job| job.id == self.id) {
            Some(before) => Standing::Waits { before },
            None => Standing::Ended,
        }
    }
}

impl<T> Drop for CompilePlace<T> {
    fn drop(&mut self) {
        let job = {
            let mut state = lock(&self.turns.state);
            let mut waiting = state.waiting.iter();
            let job = waiting.position(|job| job.id == self.id);
            job.and_then(|job| state.waiting.remove(job))
        };
        drop(job);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Waits { before: usize },
    Runs(Duration),
    Ended,
}

/// A constraint that is being compiled. Dropping it cancels a compile that has not begun.
pub struct Compiling(pub(super) Arc<CompilePlace<CompiledConstraint>>);

impl Compiling {
    /// Returns a function that describes the progress, in words that can follow "waits for".
    pub fn watch(&self) -> impl Fn() -> String + Send + 'static {
        let place = Arc::downgrade(&self.0);
        move || match place.upgrade().map(|place| place.standing()) {
            Some(Standing::Waits { before }) => {
                format!("its constraint, which waits to be compiled: {before} before it")
            }
            Some(Standing::Runs(time)) => {
                format!(
                    "the engine, which compiles its constraint: {} s",
                    time.as_secs()
                )
            }
            Some(Standing::Ended) | None => "its constraint, which is compiled".to_owned(),
        }
    }
}

show_fields!(Compiling {});

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;
    use std::sync::mpsc::{Receiver, Sender, channel};

    type Told = Receiver<Outcome<u32>>;

    fn tenant(number: u64) -> Tenant {
        Tenant {
            number,
            weight: NonZeroU32::MIN,
            places: 1,
        }
    }

    /// Work that goes on until something is sent.
    fn held(turns: &Arc<Turns<u32>>, of: u64) -> (CompilePlace<u32>, Sender<u32>, Told) {
        let (end, held) = channel();
        let (tell, told) = channel();
        let work = Box::new(move || -> Outcome<u32> { Ok(held.recv().expect("is sent")) });
        let tell = Box::new(move |outcome| drop(tell.send(outcome)));
        let place = turns.submit(Some(tenant(of)), 1 << 16, work, tell);
        (place.expect("is taken"), end, told)
    }

    #[test]
    fn tenants_take_turns_and_have_one_thread_each() {
        let turns = Arc::new(Turns::new(Duration::from_mins(1)));
        let jobs: Vec<_> = [1, 1, 1, 2, 3].map(|of| held(&turns, of)).into();
        let end = |job: usize| {
            let (_, end, told) = &jobs[job];
            end.send(job as u32).expect("runs");
            assert_eq!(told.recv().expect("is told"), Ok(job as u32));
        };
        end(0);
        end(3);
        // Of the first tenant, which was served, only after the third.
        end(4);
        end(1);
        end(2);
    }

    #[test]
    fn what_takes_too_long_is_left_behind_and_counted() {
        let turns = Arc::new(Turns::new(Duration::from_millis(20)));
        let first = held(&turns, 1);
        let second = held(&turns, 2);
        let third = held(&turns, 2);
        for (_, _, told) in [&first, &second] {
            let why = told.recv().expect("is told");
            assert_eq!(why, Err(CompileError::TooLong(Duration::from_millis(20))));
        }
        assert_eq!(third.2.recv().expect("is told"), Err(full()));
        let refused = turns.submit(Some(tenant(4)), 1 << 16, Box::new(|| Ok(0)), Box::new(drop));
        assert_eq!(refused.err(), Some(full()));
        first.1.send(0).expect("still runs");
        while lock(&turns.state).left.len() == MOST_RUNNING {
            thread::yield_now();
        }
        let (_place, end, told) = held(&turns, 4);
        end.send(7).expect("runs");
        assert_eq!(told.recv().expect("is told"), Ok(7));
    }

    #[test]
    fn what_is_left_behind_holds_up_its_own_tenant_only() {
        let turns = Arc::new(Turns::new(Duration::from_millis(500)));
        let slow = held(&turns, 1);
        let next = held(&turns, 1);
        assert!(matches!(slow.2.recv(), Ok(Err(CompileError::TooLong(_)))));
        assert_eq!(next.2.recv().expect("is told"), Err(full()));
        let again = turns.submit(Some(tenant(1)), 1 << 16, Box::new(|| Ok(0)), Box::new(drop));
        assert_eq!(again.err(), Some(full()));
        for number in 0..3 {
            let (tell, told) = channel();
            let tell = Box::new(move |outcome| drop(tell.send(outcome)));
            let work = Box::new(move || -> Outcome<u32> { Ok(number) });
            let place = turns.submit(Some(tenant(2)), 1 << 16, work, tell);
            assert_eq!(told.recv().expect("is told"), Ok(number));
            drop(place.expect("is taken"));
        }
        slow.1.send(0).expect("still runs");
    }

    #[test]
    fn what_is_dropped_before_its_turn_never_begins_and_panics_are_told() {
        let turns = Arc::new(Turns::new(Duration::from_mins(1)));
        let (place, end, told) = held(&turns, 1);
        while matches!(place.standing(), Standing::Waits { .. }) {
            thread::yield_now();
        }
        let (waits, _, dropped) = held(&turns, 1);
        assert_eq!(waits.standing(), Standing::Waits { before: 0 });
        drop(waits);
        assert!(dropped.recv().is_err(), "nobody is told");
        drop(end);
        let panicked = CompileError::from(ConstraintError(FAILED.to_owned()));
        assert_eq!(told.recv().expect("is told"), Err(panicked));
        assert_eq!(place.standing(), Standing::Ended);
    }
}
