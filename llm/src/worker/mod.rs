//! Shared by all engines: a thread that opens a model, reports that it is ready, serves until it is
//! told to stop, and shows that it is alive; and a handle, which sends it orders and knows the
//! receivers that wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};

use crate::protocol::{ErrorKind, GenerationError, LoadError};
use crate::room;

mod live;
mod panics;
mod pulse;
mod queue_places;

use live::Live;
pub(crate) use live::{OutputReceiver, Seat, Waiter};
pub(crate) use panics::catch;
pub(crate) use pulse::{Pulse, Seen, whole_seconds};
pub use queue_places::QueuePlace;
pub(crate) use queue_places::{Full, Places};

/// How long the end of a thread that was told to stop is waited for. It stops between two steps,
/// which take less on most machines; one that takes longer is left behind, for nothing may keep the
/// process from its end.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);
/// How long there is no work before a thread rests: longer than the pauses between the requests of
/// one client.
const REST_AFTER: Duration = Duration::from_millis(200);

/// What runs on the thread of an engine.
pub(crate) trait Stepper {
    /// What it is asked for.
    type Order;
    /// What runs, for its log.
    const NAME: &'static str;

    fn take_in(&mut self, order: Self::Order);

    /// The request of this number no longer waits.
    fn cancel(&mut self, number: u64);

    /// Does what there is to do, a step at most. False if there was nothing.
    fn step(&mut self) -> bool;

    /// When there will be something to do without an order, if ever.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// As [`Backend::tidy`](crate::Backend::tidy).
    fn tidy(&mut self) -> bool {
        false
    }

    /// As [`Backend::rest`](crate::Backend::rest).
    fn rest(&mut self);

    /// Tells all waiting receivers that the engine has stopped.
    fn end(&mut self);
}

/// What reaches the thread of an engine. The channel needs no bound of its own: what waits in it is
/// bounded by the engine's queue, and each that waits is cancelled at most once.
pub(crate) enum Command<O> {
    Order(O),
    Cancel(u64),
    Shutdown,
}

/// The thread's end of its commands.
pub(crate) struct Inbox<O>(Receiver<Command<O>>);

/// With what a thread says that its model is loaded.
#[derive(Debug)]
pub(crate) struct Ready<T>(Sender<Result<T, LoadError>>);

/// The thread of an engine that takes orders `O`, and those who wait for it, whom it knows as `W`.
pub(crate) struct Worker<O, W> {
    thread: Option<JoinHandle<()>>,
    pulse: Arc<Pulse>,
    commands: Sender<Command<O>>,
    live: Arc<Live<W>>,
    next_number: AtomicU64,
}

/// A request to an engine. Dropping it cancels the request.
pub(crate) struct Ticket<O, W> {
    seat: Seat<W>,
    commands: Sender<Command<O>>,
}

impl<O: Send + 'static, W> Worker<O, W> {
    /// Starts a thread and waits until it is ready. `serve` opens the model, tells [`Ready`] what
    /// it has opened, and returns when it has served its [`Inbox`].
    ///
    /// # Errors
    /// What `serve` returns before it is ready, and that it panicked or that there is no thread.
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
            let ready = Ready(sender.clone());
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

    /// What shows whether the thread is alive.
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Where its commands go.
    pub(crate) fn commands(&self) -> &Sender<Command<O>> {
        &self.commands
    }

    /// A new, unique number.
    pub(crate) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a receiver that waits for the thread. It is notified by another thread if this one
    /// fails.
    ///
    /// # Errors
    /// Why the engine was given up, if it was.
    pub(crate) fn seat(&self, number: u64, who: W) -> Result<Seat<W>, GenerationError> {
        self.live.enter(number, who)
    }

    /// As [`seat`](Self::seat), for a request that can be cancelled.
    ///
    /// # Errors
    /// Those of [`seat`](Self::seat).
    pub(crate) fn ticket(&self, number: u64, who: W) -> Result<Ticket<O, W>, GenerationError> {
        Ok(Ticket {
            seat: self.seat(number, who)?,
            commands: self.commands.clone(),
        })
    }

    /// Gives the thread an order that it has to [take](Pulse::taken). False if it has ended.
    pub(crate) fn order(&self, order: O) -> bool {
        self.pulse.given();
        self.commands.send(Command::Order(order)).is_ok()
    }

    /// Abandons the thread, which is dead or hangs: no more requests can wait for it, and the
    /// waiting ones are returned, to be told why.
    pub(crate) fn abandon(&self, why: &GenerationError) -> Vec<W> {
        self.pulse.abandon();
        self.live.close(why)
    }

    /// Tells the thread to stop, and waits for its end for a bounded time; not if the thread itself
    /// calls this, or was given up. False if it runs on. What it has freed goes back to the system.
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
            tracing::warn!(thread = name(), "a thread does not end and is left behind");
            return false;
        }
        // A panic of the thread has been reported there.
        thread.join().ok();
        // What it computed in is free now; the heap would keep it for the thread of a next engine.
        room::trim();
        true
    }
}

impl<O, W> Ticket<O, W> {
    pub(crate) fn number(&self) -> u64 {
        self.seat.number()
    }

    /// Says something about the request.
    pub(crate) fn say(&self, order: O) {
        // Fails only when the engine has stopped, which ended the request.
        self.commands.send(Command::Order(order)).ok();
    }
}

impl<O, W> Drop for Ticket<O, W> {
    fn drop(&mut self) {
        // Fails only when the engine has stopped, which ended the request.
        self.commands.send(Command::Cancel(self.number())).ok();
    }
}

impl<O, W> fmt::Debug for Ticket<O, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

impl<T> Ready<T> {
    /// The model is loaded.
    pub(crate) fn is(&self, opened: T) {
        // The receiver waits in `start` until this message or an error.
        self.0.send(Ok(opened)).ok();
    }
}

impl<O> Inbox<O> {
    /// Steps until the engine is dropped. All waiting receivers are then told that it has stopped.
    pub(crate) fn serve<S: Stepper<Order = O>>(&self, stepper: &mut S) {
        if let Err(message) = catch(|| self.step_until_shutdown(stepper)) {
            tracing::error!(%message, "{} panicked outside of a step", S::NAME);
        }
        while let Ok(command) = self.0.try_recv() {
            take_in(stepper, command); // who came too late gets an answer below
        }
        stepper.end();
    }

    fn step_until_shutdown(&self, stepper: &mut impl Stepper<Order = O>) {
        loop {
            let command = match self.0.try_recv() {
                Err(TryRecvError::Disconnected) => return,
                Ok(command) => Some(command),
                Err(TryRecvError::Empty) if stepper.step() => None,
                Err(TryRecvError::Empty) => match self.wait(stepper) {
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => None,
                    Ok(command) => Some(command),
                },
            };
            match command {
                Some(Command::Shutdown) => return,
                Some(command) => take_in(stepper, command),
                None => {}
            }
        }
    }

    /// Waits for a command, at most until there is something to do without.
    fn wait(&self, stepper: &mut impl Stepper<Order = O>) -> Result<Command<O>, RecvTimeoutError> {
        let due = stepper.due();
        // What is due comes before tidying up.
        while due.is_none() {
            match self.0.try_recv() {
                Ok(command) => return Ok(command),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if stepper.tidy() => {}
                Err(TryRecvError::Empty) => break,
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

/// The error of requests to an engine that was dropped.
pub(crate) fn stopped() -> GenerationError {
    GenerationError {
        kind: ErrorKind::Unavailable,
        message: "the engine has stopped".to_owned(),
    }
}
