//! Executors by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    thread::available_parallelism,
};

use crate::{
    executor::{Executor, ThreadPool},
    lanes::{Junction, Lane, Share},
    lock::lock,
};

/// Executors that exist without a declaration in a graph. Each is made on first use.
#[derive(Default)]
pub struct Executors {
    named: Mutex<BTreeMap<String, Arc<Junction>>>,
}

impl Executors {
    /// Name of the executor for computations.
    pub const CPU: &'static str = "cpu";

    /// Makes a set with only the executor `cpu`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the executor of a name, which may be `cpu`.
    pub fn insert(&self, name: impl Into<String>, executor: Arc<dyn Executor>) {
        lock(&self.named).insert(name.into(), Junction::new(executor));
    }

    /// Returns the executor of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Executor>> {
        Some(Arc::clone(self.junction(name)?.executor()))
    }

    /// Makes a lane of the executor `cpu` for work that belongs to no graph.
    pub fn cpu(&self) -> Lane {
        self.shared_cpu().lane(Self::CPU)
    }

    /// Makes a lane for a graph on the executor of this name.
    pub(crate) fn lane(&self, name: &str) -> Option<Lane> {
        Some(self.junction(name)?.lane(name))
    }

    fn junction(&self, name: &str) -> Option<Arc<Junction>> {
        if name == Self::CPU {
            return Some(self.shared_cpu());
        }
        lock(&self.named).get(name).map(Arc::clone)
    }

    fn shared_cpu(&self) -> Arc<Junction> {
        let mut named = lock(&self.named);
        let junction = named.entry(Self::CPU.to_owned()).or_insert_with(|| {
            let cores = available_parallelism().map_or(1, usize::from);
            // Twice as many threads as one tenant may use: running jobs are not interrupted, and
            // other tenants must find a free thread.
            let share = Share {
                threads: 2 * cores,
                most: cores,
            };
            let pool = Arc::new(ThreadPool::new(Self::CPU, Some(share.threads)));
            Junction::shared(pool, Some(share))
        });
        Arc::clone(junction)
    }
}
