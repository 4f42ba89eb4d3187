//! The resource that collects requests of all sessions and computes them in batches.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use graphmill_engine::{Error, FileSource, Resource, Result};

use super::measure::{BatcherInfo, BatcherMeasurements};
use super::options::{Batching, InputDescription};
use super::shared::{Pending, SharedBatcher};
use super::source::BatcherSpec;
use crate::tensor::{Tensor, TensorModel, shown};

/// Maximum time to wait for the threads to stop, each of which stops after its batch. A thread that
/// takes longer is abandoned, so that it cannot keep the process from exiting.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);

/// A queue and threads that compute the requests of many sessions in batches. Dropping it stops the
/// threads, and waiting requests end with an error.
pub struct Batcher {
    shared: Arc<SharedBatcher>,
    threads: Mutex<Threads>,
    /// Disconnected when all threads have stopped.
    ended: Receiver<()>,
}

/// The threads of a batcher.
struct Threads {
    handles: Vec<thread::JoinHandle<()>>,
    /// Sender held by each thread, and here until no further thread will start.
    alive: Option<Sender<()>>,
}

/// Scheduling details of a request, in addition to its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestScheduling {
    /// Priority level, 1 for the first. 0 is the batcher's default level.
    pub priority: u32,
    /// Time at which the request is given up, if there is one.
    pub deadline: Option<Instant>,
}

impl Batcher {
    /// Creates a batcher for a model of the caller. `name` identifies it in messages and metrics.
    ///
    /// # Errors
    /// A value of `batching` is out of range, a tensor of the model has a fixed dimension 0, or a
    /// thread cannot be started.
    pub fn new(name: &str, model: Arc<dyn TensorModel>, batching: Batching) -> Result<Self> {
        Self::with_inputs(name, model, batching, &[])
    }

    fn with_inputs(
        name: &str,
        model: Arc<dyn TensorModel>,
        mut batching: Batching,
        said: &[InputDescription],
    ) -> Result<Self> {
        batching.check()?;
        batching.preferred_batch_size.sort_unstable();
        let instances = batching.instances;
        let info = BatcherInfo {
            model: name.to_owned(),
            inputs: described(&*model, said)?,
            batching,
        };
        let (alive, ended) = crossbeam_channel::bounded(0);
        let batcher = Self {
            shared: Arc::new(SharedBatcher::new(info, model)),
            threads: Mutex::new(Threads {
                handles: Vec::new(),
                alive: Some(alive),
            }),
            ended,
        };
        batcher.spawn(&mut batcher.threads(), SharedBatcher::keep_time)?;
        batcher.scale(instances)?;
        Ok(batcher)
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        // The only change under the lock is one thread more or less.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the number of threads that compute batches. A surplus thread stops after its batch.
    ///
    /// # Errors
    /// The number is out of range, or a thread cannot be started.
    pub fn scale(&self, instances: u32) -> Result<()> {
        let batching = Batching {
            instances,
            ..self.info().batching.clone()
        };
        batching.check()?;
        let mut threads = self.threads();
        threads.handles.retain(|thread| !thread.is_finished());
        self.shared.lock().instances = instances;
        self.shared.work.notify_all();
        loop {
            let mut state = self.shared.lock();
            if state.computing >= instances {
                return Ok(());
            }
            state.computing += 1;
            drop(state);
            let spawned = self.spawn(&mut threads, SharedBatcher::serve);
            if spawned.is_err() {
                let mut state = self.shared.lock();
                state.computing -= 1;
                state.instances = state.computing;
                return spawned;
            }
        }
    }

    /// Returns the number of threads that compute batches.
    pub fn instances(&self) -> u32 {
        self.shared.lock().instances
    }

    fn spawn(&self, threads: &mut Threads, serve: fn(&SharedBatcher)) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let alive = threads.alive.clone();
        let builder = thread::Builder::new().name(format!("batch {}", self.info().model));
        let thread = builder.spawn(move || {
            let _alive = alive;
            serve(&shared);
        });
        let thread = thread.map_err(|error| {
            Error::unavailable("no thread can be started for the batcher").with_source(error)
        })?;
        threads.handles.push(thread);
        Ok(())
    }

    /// Adds a request: a tensor for each of the model's inputs, all with the same dimension 0.
    ///
    /// # Errors
    /// A tensor is not what the model takes, the request has more rows than a batch, the priority
    /// level does not exist, or too many requests wait.
    pub fn submit(&self, inputs: Vec<Tensor>, asked: RequestScheduling) -> Result<Pending> {
        let level = self.level(asked.priority)?;
        let timeout = self.info().batching.levels[level].timeout();
        self.shared.enter(inputs, level, timeout, asked.deadline)
    }

    /// Returns the level of a priority, counted from 0.
    fn level(&self, priority: u32) -> Result<usize> {
        let levels = self.info().batching.levels.len();
        let level = match priority {
            0 => self.info().batching.default_priority_level,
            given => given,
        } as usize;
        if level <= levels {
            return Ok(level - 1);
        }
        let message = match levels {
            1 => format!("`priority` is {priority}, and the requests have no priority levels"),
            _ => format!("`priority` is {priority}, and the levels are 1 to {levels}"),
        };
        Err(Error::invalid(message)
            .with_field("priority")
            .with_code("invalid_value"))
    }

    /// Returns the settings that it runs with.
    pub fn info(&self) -> &BatcherInfo {
        &self.shared.info
    }

    /// Returns its measurements since it was created.
    pub fn measurements(&self) -> BatcherMeasurements {
        self.shared.measured.read()
    }

    /// Returns the number of requests that wait for a batch.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }
}

/// Returns the model's inputs, in which the graph's descriptions replace those of the same name.
fn described(model: &dyn TensorModel, said: &[InputDescription]) -> Result<Vec<InputDescription>> {
    let mut inputs: Vec<InputDescription> = model.inputs().iter().map(Into::into).collect();
    if inputs.is_empty() {
        inputs.extend_from_slice(said);
    } else {
        for description in said {
            let same = |input: &&mut InputDescription| input.name == description.name;
            let Some(input) = inputs.iter_mut().find(same) else {
                let name = &description.name;
                let message = format!("the model has no input `{name}`");
                return Err(Error::invalid(message).with_field("input"));
            };
            input.clone_from(description);
        }
    }
    let inputs_say = inputs.iter().map(|it| ("input", &it.name, &it.shape));
    let inputs_say = inputs_say.filter(|(_, _, shape)| !shape.is_empty());
    let outputs = model.outputs().iter();
    let outputs_say = outputs.map(|it| ("output", &it.name, &it.shape));
    let fixed =
        |(_, _, shape): &(&str, &String, &Vec<i64>)| shape.first().is_none_or(|it| *it >= 0);
    if let Some((side, name, shape)) = inputs_say.chain(outputs_say).find(fixed) {
        let shape = shown(shape);
        let message = format!(
            "the model's {side} `{name}` has the shape {shape}: to be batched, dimension 0 has to be -1"
        );
        return Err(Error::invalid(message).with_field("model"));
    }
    Ok(inputs)
}

impl Resource for Batcher {
    type Spec = BatcherSpec;

    fn resolve(mut spec: BatcherSpec, files: &dyn FileSource) -> Result<BatcherSpec> {
        spec.source = spec.source.0.resolve(files).map_err(in_model)?;
        Ok(spec)
    }

    fn check(spec: &BatcherSpec, files: &dyn FileSource) -> Result<()> {
        spec.source.0.check(files).map_err(in_model)
    }

    fn load(spec: &BatcherSpec, files: &dyn FileSource) -> Result<Self> {
        let model = spec.source.0.load(files).map_err(in_model)?;
        let sides = [
            ("inputs", model.inputs(), spec.ports.0),
            ("outputs", model.outputs(), spec.ports.1),
        ];
        for (side, known, connected) in sides {
            if !known.is_empty() && known.len() != connected {
                let names: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
                return Err(Error::invalid(format!(
                    "the model has {} {side}, `{}`, but the node connects {connected}",
                    known.len(),
                    names.join("`, `")
                )));
            }
        }
        let name = spec.source.0.label();
        let batching = spec.batching.clone();
        Self::with_inputs(&name, model, batching, &spec.inputs)
    }
}

/// Marks an error of a model's options as one in the node's field `model`.
fn in_model(error: Error) -> Error {
    let field = match &error.field {
        Some(field) => format!("model/{field}"),
        None => "model".to_owned(),
    };
    error.with_field(field)
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.shared.stop();
        let own = thread::current().id();
        let threads = self.threads.get_mut();
        let threads = threads.unwrap_or_else(PoisonError::into_inner);
        threads.alive = None;
        let mut handles = threads.handles.iter();
        if handles.any(|thread| thread.thread().id() == own) {
            return;
        }
        if self.ended.recv_timeout(JOIN_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let name = &self.shared.info.model;
            tracing::warn!(
                name,
                "a thread of a batcher did not stop in time, abandoning it"
            );
            self.shared.abandon();
            return;
        }
        // A panic of a thread was already reported by the thread.
        threads
            .handles
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher")
            .field("info", self.info())
            .finish_non_exhaustive()
    }
}
