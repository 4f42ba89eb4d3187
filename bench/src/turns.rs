//! Two that compute in turns of a moment, each standing still while the other computes: what slows the machine down for longer falls on both.

use std::{
    ops::{ControlFlow, Range},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Lets a thread compute only in its turns.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    /// Whether there will be no turn any more.
    over: bool,
    /// Whether the thread stands still.
    waits: bool,
    /// Whether the thread has left.
    left: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn, in the thread that computes; breaks if there will be none any more.
    pub fn pass(&self) -> ControlFlow<()> {
        let mut state = self.lock();
        while !state.open && !state.over {
            state.waits = true;
            self.changed.notify_all();
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waits = false;
        if state.over {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// For the thread that computes: when what is returned is dropped, it will come no more.
    pub fn leaving(&self) -> Leaving<'_> {
        Leaving(self)
    }

    /// Begins a turn.
    pub fn open(&self) {
        self.lock().open = true;
        self.changed.notify_all();
    }

    /// Ends a turn, or waits for the thread to come for its first one; says whether it is still there.
    pub fn shut(&self) -> bool {
        let mut state = self.lock();
        state.open = false;
        while !state.waits && !state.left {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.left
    }

    /// Ends all turns.
    pub fn end(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }
}

/// Tells a gate that the thread that has this has ended.
pub struct Leaving<'a>(&'a Gate);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.lock().left = true;
        self.0.changed.notify_all();
    }
}

/// Seconds at the beginning of a turn that do not count: threads of OpenMP that have no work spin for some milliseconds before they sleep.
const SETTLES: f64 = 0.01;

/// Tokens a second in a turn, over all `streams`, by when the tokens of each came, in order. What came first in the turn was begun before it and does
/// not count. `None` if a stream has too few tokens in it.
pub fn rate(turn: &Range<f64>, streams: &[Vec<f64>]) -> Option<f64> {
    let of_stream = |times: &Vec<f64>| {
        let begin = times.partition_point(|time| *time < turn.start + SETTLES);
        let end = times.partition_point(|time| *time < turn.end);
        let (first, last) = (times.get(begin)?, times[..end].last()?);
        let counted = times[..end].iter().filter(|time| *time > first).count();
        (counted > 0 && last > first).then(|| counted as f64 / (last - first))
    };
    streams.iter().map(of_stream).sum()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_rate_is_that_of_the_tokens_within_a_turn() {
        let stream = vec![0.9, 1.001, 1.1, 1.2, 1.3, 1.4, 2.5];
        let both = [stream.clone(), stream];
        let rate_of = |turn: Range<f64>| rate(&turn, &both);
        assert!((rate_of(1.0..2.0).expect("tokens") - 20.0).abs() < 1e-9);
        assert_eq!(rate_of(2.0..3.0), None);
        assert_eq!(rate_of(3.0..4.0), None);
        // Tokens that come together count once the first of them is left out.
        let bursts = [vec![1.0, 1.0, 1.5, 1.5, 2.0, 2.0]];
        assert!((rate(&(0.0..3.0), &bursts).expect("tokens") - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_thread_computes_in_its_turns_alone() {
        let gate = Gate::default();
        let count = Mutex::new(0);
        let so_far = || *count.lock().expect("nobody panics");
        thread::scope(|scope| {
            scope.spawn(|| {
                let _leaving = gate.leaving();
                while gate.pass().is_continue() {
                    *count.lock().expect("nobody panics") += 1;
                }
            });
            assert!(gate.shut());
            assert_eq!(so_far(), 0);
            gate.open();
            while so_far() == 0 {
                thread::yield_now();
            }
            assert!(gate.shut());
            let after_a_turn = so_far();
            assert!(gate.shut());
            assert_eq!(so_far(), after_a_turn);
            gate.end();
        });
        assert!(!gate.shut());
    }
}
