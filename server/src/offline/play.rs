//! Sessions whose inputs are lines.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use graphmill_calculators::{llm::RecordedTokens, payload::Account};
use graphmill_engine::{
    Error, Handle, Packet, Plan, Result, RunCx, Session, SidePackets, Summary, Timestamp, Why,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use super::{line::Line, order::LineOrder};

/// The end of a session.
pub(crate) enum End {
    /// The session is complete, without an error.
    Done,
    Failed(Error),
    /// The session does not continue. The text says since when and why.
    Stuck(String),
    /// The user interrupted the session.
    Interrupted,
    /// A line could not be read, with the reason.
    BadLine(String),
    /// The line with this number could not be sent, or made the session fail because it is too
    /// late.
    Refused(usize, Error),
}

/// A line with its number, or the reason why it could not be read.
pub(crate) type NumberedLine = Result<(usize, Line), String>;

/// A session that has not started.
pub(crate) struct Play {
    session: Session,
    handle: Handle,
    /// Notified when an observed packet was produced.
    progress: Arc<Notify>,
}

/// Packets of some streams, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketLog(Arc<Mutex<Vec<(String, Packet)>>>);

impl PacketLog {
    /// Removes and returns the packets so far.
    pub(crate) fn take(&self) -> Vec<(String, Packet)> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The time limits of a session, and the reports while it waits.
pub(crate) struct Patience<'a> {
    /// True to read lines to their end, also if the session ends earlier, so that a packet behind
    /// the end of its stream is found. The lines must have an end.
    pub(crate) reads_all: bool,
    /// True to close all inputs after the last line.
    pub(crate) close: bool,
    /// Maximum time without an output packet, after the end of the input.
    pub(crate) silence: Duration,
    /// Receives what the session waits for when no packet was produced for a second.
    pub(crate) tell: Option<&'a (dyn Fn(&str) + Sync)>,
}

/// Time without a packet after which the report is made.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Practically unlimited time that can still be added to an instant.
const FOR_EVER: Duration = Duration::from_hours(10 * 365 * 24);

/// Time without a packet after which a session without further input is asked whether it is stuck.
/// The time doubles with each question.
const ASK_AFTER: Duration = Duration::from_millis(50);

impl Play {
    /// Creates a session with this id. If `tokens` are given, language models produce them instead
    /// of generating.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        sides: SidePackets,
        tokens: Option<RecordedTokens>,
        id: &str,
    ) -> Result<Self> {
        let mut run = RunCx::new(id);
        run.extension = Some(Arc::new(Account {
            recorded: tokens,
            ..Account::default()
        }));
        Session::new(plan, run, sides).map(Self::from)
    }

    /// Calls `observer` with each packet of a stream.
    pub(crate) fn observe(
        &mut self,
        stream: &str,
        mut observer: impl FnMut(&Packet) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let progress = Arc::clone(&self.progress);
        let packets = move |_: Timestamp, packet: Option<&Packet>| {
            progress.notify_one();
            packet.map_or(Ok(()), &mut observer)
        };
        self.session.observe(stream, false, packets)
    }

    /// Keeps the packets of some streams. The session fails if there are more than `most`.
    pub(crate) fn keep<'a>(
        &mut self,
        streams: impl IntoIterator<Item = &'a str>,
        most: usize,
    ) -> Result<PacketLog> {
        let all = PacketLog::default();
        for stream in streams {
            let (name, kept) = (stream.to_owned(), all.clone());
            self.observe(stream, move |packet| {
                let mut kept = kept.0.lock();
                if kept.len() == most {
                    return Err(Error::exhausted(format!("more than {most} output packets")));
                }
                kept.push((name.clone(), packet.clone()));
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// Runs the session: sends lines as they arrive, and waits for the end.
    pub(crate) async fn run(
        self,
        lines: mpsc::Receiver<NumberedLine>,
        interrupted: impl Future<Output = ()>,
        patience: Patience<'_>,
    ) -> (End, Handle) {
        let (session, progress) = (tokio::spawn(self.session), &self.progress);
        let handle = self.handle;
        let attended = attend(session, &handle, lines, progress, interrupted, patience);
        (attended.await, handle)
    }
}

impl From<(Session, Handle)> for Play {
    fn from((session, handle): (Session, Handle)) -> Self {
        Self {
            session,
            handle,
            progress: Arc::default(),
        }
    }
}

/// Makes a channel of lines that are all available, for [`Play::run`].
pub(crate) fn complete(lines: Vec<(usize, Line)>) -> mpsc::Receiver<NumberedLine> {
    let (sender, receiver) = mpsc::channel(lines.len().max(1));
    for line in lines {
        // The channel has space for all lines, and the receiver exists.
        let _ = sender.try_send(Ok(line));
    }
    receiver
}

async fn attend(
    mut session: JoinHandle<Result<Summary>>,
    handle: &Handle,
    mut lines: mpsc::Receiver<NumberedLine>,
    progress: &Notify,
    interrupted: impl Future<Output = ()>,
    patience: Patience<'_>,
) -> End {
    let sending = AtomicBool::new(false);
    let order = Mutex::new(LineOrder::default());
    let order = || order.lock();
    let feed = async {
        while let Some(line) = lines.recv().await {
            let (number, line) = line.map_err(End::BadLine)?;
            let stream = order().note(number, &line);
            if let Some(stream) = stream {
                let message = format!("a packet was sent to the closed stream `{stream}`");
                return Err(End::Refused(number, Error::precondition(message)));
            }
            sending.store(true, Relaxed);
            let sent = send(handle, line).await;
            sending.store(false, Relaxed);
            sent.map_err(|error| refused(handle, number, &error))?;
        }
        if patience.close {
            handle.close_all();
        }
        Ok(())
    };
    let (mut feed, mut interrupted) = (pin!(feed), pin!(interrupted));
    let mut silent_since = Instant::now();
    let (mut complete, mut told, mut ask_after) = (false, false, ASK_AFTER);
    let longest = patience.silence.min(FOR_EVER);
    loop {
        tokio::select! {
            biased;
            () = progress.notified() => (silent_since, told, ask_after) = (Instant::now(), false, ASK_AFTER),
            ended = &mut session => return match ended {
                // Lines that were not read yet may come behind the end of their stream.
                Ok(Ok(_)) if patience.reads_all && !complete => feed.await.err().unwrap_or(End::Done),
                Ok(Ok(_)) => End::Done,
                Ok(Err(error)) => failed(error, &order()),
                Err(panic) => End::Failed(Error::internal(panic.to_string())),
            },
            result = &mut feed, if !complete => match result {
                Ok(()) => (complete, silent_since, ask_after) = (true, Instant::now(), ASK_AFTER),
                Err(End::Failed(error)) => return failed(error, &order()),
                Err(end) => return end,
            },
            () = &mut interrupted => return End::Interrupted,
            () = sleep_until(silent_since + ask_after) => {
                ask_after *= 2;
                let waiting = complete || sending.load(Relaxed);
                if waiting && let Some(why) = ask(handle).await.filter(Why::is_stuck) {
                    return End::Stuck(format!("the graph cannot go on\n{why}"));
                }
            }
            () = sleep_until(silent_since + TELL_AFTER), if !told && patience.tell.is_some() => {
                told = true;
                if let Some(tell) = patience.tell {
                    tell(&in_words(handle).await);
                }
            }
            () = sleep_until(silent_since + longest), if complete => {
                let silent = longest.as_secs_f64();
                let why = in_words(handle).await;
                return End::Stuck(format!("no output for {silent} s\n{why}"));
            }
        }
    }
}

/// Returns the end of a session that failed after these lines.
fn failed(error: Error, order: &LineOrder) -> End {
    match order.at_fault(&error) {
        Some(number) => End::Refused(number, error),
        None => End::Failed(error),
    }
}

/// Returns what the session waits for; `None` if it does not answer, because a call of a node is
/// running.
async fn ask(handle: &Handle) -> Option<Why> {
    timeout(TELL_AFTER, handle.why()).await.ok()
}

async fn in_words(handle: &Handle) -> String {
    match ask(handle).await {
        Some(why) => why.to_string().trim_end().to_owned(),
        None => "a call of a node does not return, so the session cannot answer".to_owned(),
    }
}

/// Returns the end for a line that could not be sent: the end of the session if it has ended, else
/// that the line is wrong.
fn refused(handle: &Handle, number: usize, error: &Error) -> End {
    match handle.outcome().now_or_never() {
        Some(Err(error)) => End::Failed(error),
        Some(Ok(_)) => End::Done,
        None => End::Refused(number, error.clone()),
    }
}

async fn send(handle: &Handle, line: Line) -> Result<()> {
    match line {
        Line::Packet { stream, packet } => handle.push(&stream, packet).await,
        Line::Bound { stream, at } => handle.bound(&stream, at),
        Line::Close { stream } => handle.close(&stream),
        Line::Side { name, .. } => Err(Error::invalid(format!(
            "side packet `{name}` comes after the graph has started: expected side packets first"
        ))),
    }
}
