//! The thread of an engine, of any kind. It opens a model, reports that it is ready, and serves
//! until the shutdown command, with a heartbeat. Its handle sends it orders and keeps the receivers
//! that wait for results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};

use crate::debug::show_fields;
use crate::memory_budget;
use crate::protocol::{ErrorKind, GenerationError, LoadError};

mod live;
mod panics;
mod pulse;
mod queue_places;

use live::Live;
pub(crate) use live::{OutputReceiver, Seat, Waiter};
pub(crate) use panics::catch;
pub(crate) use pulse::{Pulse, PulseState, whole_seconds};
pub(crate) use queue_places::Places;
pub use queue_places::QueuePlace;

/// Maximum time to wait for a thread to stop. It stops between two steps, and a step takes less
/// time on most machines. A slower thread is abandoned, so that it does not keep the process from
/// ending.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);
/// Idle time before a call of [`Stepper::rest`]: longer than the pauses between the requests of one
/// client.
const REST_AFTER: Duration = Duration::from_millis(200);

/// The work of an engine's thread.
pub(crate) trait Stepper {
    /// Type of the orders that it takes.
    type Order;
    /// Name of the thread in the log.
    const NAME: &'static str;

    fn take_in(&mut self, order: Self::Order);

    /// Cancels the request with this number.
    fn cancel(&mut self, number: u64);

    /// Does at most one step of work. Returns false if there was none.
    fn step(&mut self) -> bool;

    /// Returns the time of the next work that needs no order; `None` if there is none.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does deferred work, as [`Backend::tidy`](crate::Backend::tidy) does. Returns true if more is
    /// left.
    fn tidy(&mut self) -> bool {
        false
    }

    /// Releases resources while idle, as [`Backend::rest`](crate::Backend::rest) does.
    fn rest(&mut self);

    /// Tells all waiting receivers that the engine has stopped.
    fn end(&mut self);
}

/// A message to the thread of an engine. The channel needs no bound: the engine's queue bounds the
/// waiting requests, and each is cancelled at most once.
pub(crate) enum Command<O> {
    Order(O),
    Cancel(u64),
    Shutdown,
}

/// The receiving end of a thread's commands.
pub(crate) struct Inbox<O>(Receiver<Command<O>>);

/// Sender of the opened model, or of an error, to [`Worker::start`], which waits for it.
pub(crate) type Ready<T> = Sender<Result<T, LoadError>>;

/// The thread of an engine that takes orders `O`, with the waiting receivers `W`.
pub(crate) struct Worker<O, W> {
    thread: Option<JoinHandle<()>>,
    /// Heartbeat that shows if the thread is alive.
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) commands: Sender<Command<O>>,
    live: Arc<Live<W>>,
    next_number: AtomicU64,
}

/// A request to an engine. Dropping it cancels the request.
pub(crate) struct Ticket<O, W> {
    seat: Seat<W>,
    commands: Sender<Command<O>>,
}

impl<O: Send + 'static, W> Worker<O, W> {
    /// Starts a thread and waits until it is ready. `serve` opens the model, passes the result to
    /// [`Ready`], and returns after it has served its [`Inbox`].
    ///
    /// # Errors
    /// An error or a panic of `serve` before it is ready, or the failure to start a thread.
    pub(crate) fn start<T, F>(
        name: String,
        pulse: Arc<Pulse>,
        serve: F,
    ) -> Result<(Self, T), LoadError>
    where
        T: Send + 'static,
        F: FnOnce(Ready<T>, Inbox<O>) -> Result<(), LoadError> + Send + 'static,
    {
        let (commands, inbox) = crossbeam_channel::unbounded();
        let (sender, opened) = crossbeam_channel::bounded(1);
        let to_end = Arc::clone(&pulse);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let ready = sender.clone();
            let outcome = catch(|| serve(ready, Inbox(inbox)))
                .unwrap_or_else(|message| Err(LoadError::Panicked { message }));
            to_end.end();
            if let Err(error) = outcome {
                sender.send(Err(error)).ok(); // nobody waits any more if loading had succeeded
            }
        });
        let thread = thread.map_err(|source| LoadError::Thread { source })?;
        let ended = |_| LoadError::Panicked {
            message: "the engine thread ended while loading".to_owned(),
        };
        let opened = opened.recv().map_err(ended)??;
        let worker = Self {
            thread: Some(thread),
            pulse,
            commands,
            live: Arc::new(Live::new()),
            next_number: AtomicU64::new(1),
        };
        Ok((worker, opened))
    }

    /// Returns a number that is unique in this engine.
    pub(crate) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a receiver that waits for the thread. If the thread fails, another thread notifies
    /// the receiver.
    ///
    /// # Errors
    /// The reason, if the engine was abandoned.
    pub(crate) fn seat(&self, number: u64, who: W) -> Result<Seat<W>, GenerationError> {
        self.live.enter(number, who)
    }

    /// Registers a receiver as [`seat`](Self::seat) does, for a request that can be cancelled.
    ///
    /// # Errors
    /// Those of [`seat`](Self::seat).
    pub(crate) fn ticket(&self, number: u64, who: W) -> Result<Ticket<O, W>, GenerationError> {
        Ok(Ticket {
            seat: self.seat(number, who)?,
            commands: self.commands.clone(),
        })
    }

    /// Sends an order that the thread must [take](Pulse::taken). Returns false if it has ended.
    pub(crate) fn order(&self, order: O) -> bool {
        self.pulse.given.add(1);
        self.commands.send(Command::Order(order)).is_ok()
    }

    /// Abandons the thread, which is dead or hangs. Refuses further receivers and returns the
    /// waiting ones, to be notified.
    pub(crate) fn abandon(&self, why: &GenerationError) -> Vec<W> {
        self.pulse.abandon();
        self.live.close(why)
    }

    /// Tells the thread to stop, and waits a limited time for its end. Does not wait if the thread
    /// itself calls this or was abandoned. Returns false if the thread may still run. Otherwise
    /// returns freed memory to the system.
    pub(crate) fn stop(&mut self) -> bool {
        // Fails only if the thread has ended already.
        self.commands.send(Command::Shutdown).ok();
        let Some(thread) = self.thread.take() else {
            return true;
        };
        if thread.thread().id() == thread::current().id() || self.pulse.abandoned() {
            return false;
        }
        let name = || thread.thread().name().unwrap_or_default().to_owned();
        if self.pulse.ended().recv_timeout(JOIN_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(thread = name(), "worker thread did not stop, abandoning it");
            return false;
        }
        // The thread has reported its own panic.
        thread.join().ok();
        // The memory of its computations is free now; the heap would keep it for the thread of a
        // later engine.
        memory_budget::trim();
        true
    }
}

impl<O, W> Ticket<O, W> {
    pub(crate) fn number(&self) -> u64 {
        self.seat.number
    }

    /// Sends an order about the request.
    pub(crate) fn say(&self, order: O) {
        // Fails only if the engine has stopped, which ended the request.
        self.commands.send(Command::Order(order)).ok();
    }
}

impl<O, W> Drop for Ticket<O, W> {
    fn drop(&mut self) {
        // Fails only if the engine has stopped, which ended the request.
        self.commands.send(Command::Cancel(self.number())).ok();
    }
}

show_fields! { Ticket<O, W> { seat } }

impl<O> Inbox<O> {
    /// Runs the steps until the shutdown command. Then notifies all waiting receivers that the
    /// engine has stopped.
    pub(crate) fn serve<S: Stepper<Order = O>>(&self, stepper: &mut S) {
        if let Err(message) = catch(|| self.step_until_shutdown(stepper)) {
            tracing::error!(%message, "{} panicked outside of a step", S::NAME);
        }
        while let Ok(command) = self.0.try_recv() {
            take_in(stepper, command); // orders that came too late are answered below
        }
        stepper.end();
    }

    fn step_until_shutdown(&self, stepper: &mut impl Stepper<Order = O>) {
        loop {
            let received = match self.0.try_recv() {
                Err(TryRecvError::Empty) if stepper.step() => continue,
                Err(TryRecvError::Empty) => self.wait(stepper),
                received => received.map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(Command::Shutdown) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(command) => take_in(stepper, command),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits for a command, at most until work is [due](Stepper::due). Meanwhile does deferred work
    /// if nothing is due, and rests.
    fn wait(&self, stepper: &mut impl Stepper<Order = O>) -> Result<Command<O>, RecvTimeoutError> {
        let due = stepper.due();
        // Due work comes before deferred work.
        while due.is_none() {
            match self.0.try_recv() {
                Err(TryRecvError::Empty) if stepper.tidy() => {}
                Err(TryRecvError::Empty) => break,
                received => return received.map_err(|_| RecvTimeoutError::Disconnected),
            }
        }
        let rest = Instant::now() + REST_AFTER;
        if due.is_none_or(|due| due > rest) {
            match self.0.recv_deadline(rest) {
                Err(RecvTimeoutError::Timeout) => stepper.rest(),
                outcome => return outcome,
            }
        }
        match due {
            Some(due) => self.0.recv_deadline(due),
            None => Ok(self.0.recv()?),
        }
    }
}

fn take_in<S: Stepper>(stepper: &mut S, command: Command<S::Order>) {
    match command {
        Command::Order(order) => stepper.take_in(order),
        Command::Cancel(number) => stepper.cancel(number),
        Command::Shutdown => {}
    }
}

/// The error for requests to an engine that was dropped.
pub(crate) fn stopped() -> GenerationError {
    GenerationError::new(ErrorKind::Unavailable, "the engine has stopped")
}
