//! A session that is complete from lines.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use graphmill_calculators::{llm::RecordedTokens, payload::Account};
use graphmill_engine::{
    Error, Handle, Packet, Plan, Result, RunCx, Session, SidePackets, Summary, Timestamp, Why,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};

use super::{line::Line, order::Order};

/// How a session ended.
pub(crate) enum End {
    /// All of it was done.
    Done,
    Failed(Error),
    /// It does not go on; since when and why, in words.
    Stuck(String),
    /// The user does not want it any more.
    Interrupted,
    /// A line could not be read.
    BadLine(String),
    /// The line of this number could not be sent, or made the session fail because it came too late.
    Refused(usize, Error),
}

/// A line with its number, or why it could not be read.
pub(crate) type Numbered = Result<(usize, Line), String>;

/// A session that has not started.
pub(crate) struct Play {
    session: Session,
    handle: Handle,
    /// Notified when an observed packet comes out.
    progress: Arc<Notify>,
}

/// Packets that came out of some streams, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<(String, Packet)>>>);

impl Kept {
    /// Takes the packets that came out so far.
    pub(crate) fn take(&self) -> Vec<(String, Packet)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How long to be patient, and what to do meanwhile.
pub(crate) struct Patience<'a> {
    /// Whether what is open is closed after the last line.
    pub(crate) close: bool,
    /// The longest time without a packet out, once the input has ended.
    pub(crate) silence: Duration,
    /// Called with what the session waits for whenever nothing has come out for a second.
    pub(crate) tell: Option<&'a (dyn Fn(&str) + Sync)>,
}

/// After this time without a packet, the reason is reported if it was asked for.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Longer than anybody waits, and short enough to be added to a time.
const FOR_EVER: Duration = Duration::from_hours(10 * 365 * 24);

/// After this time without a packet, a session that takes no more input is asked whether it waits
/// for itself; then after twice the time, and so on.
const ASK_AFTER: Duration = Duration::from_millis(50);

impl Play {
    /// A session under this id, in which language models generate `tokens`, if they are given.
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

    /// Keeps the packets of some streams. The session fails when there are more than `most`.
    pub(crate) fn keep<'a>(
        &mut self,
        streams: impl IntoIterator<Item = &'a str>,
        most: usize,
    ) -> Result<Kept> {
        let all = Kept::default();
        for stream in streams {
            let (name, kept) = (stream.to_owned(), all.clone());
            self.observe(stream, move |packet| {
                let mut kept = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == most {
                    return Err(Error::exhausted(format!(
                        "more than {most} packets came out"
                    )));
                }
                kept.push((name.clone(), packet.clone()));
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// Runs the session: sends the lines as they come, and waits for the end.
    pub(crate) async fn run(
        self,
        lines: mpsc::Receiver<Numbered>,
        interrupted: impl Future<Output = ()>,
        patience: Patience<'_>,
    ) -> (End, Handle) {
        let (session, progress) = (tokio::spawn(self.session), &self.progress);
        let attended = attend(
            session,
            &self.handle,
            lines,
            progress,
            interrupted,
            patience,
        );
        (attended.await, self.handle)
    }
}

impl From<(Session, Handle)> for Play {
    fn from((session, handle): (Session, Handle)) -> Self {
        let progress = Arc::default();
        Self {
            session,
            handle,
            progress,
        }
    }
}

/// Lines that are all there, for [`Play::run`].
pub(crate) fn complete(lines: Vec<(usize, Line)>) -> mpsc::Receiver<Numbered> {
    let (sender, receiver) = mpsc::channel(lines.len().max(1));
    for line in lines {
        // There is room for all of them, and the receiver is at hand.
        let _ = sender.try_send(Ok(line));
    }
    receiver
}

async fn attend(
    mut session: JoinHandle<Result<Summary>>,
    handle: &Handle,
    mut lines: mpsc::Receiver<Numbered>,
    progress: &Notify,
    interrupted: impl Future<Output = ()>,
    patience: Patience<'_>,
) -> End {
    let sending = AtomicBool::new(false);
    let order = Mutex::new(Order::default());
    let order = || order.lock().unwrap_or_else(PoisonError::into_inner);
    let feed = async {
        while let Some(line) = lines.recv().await {
            let (number, line) = line.map_err(End::BadLine)?;
            order().note(number, &line);
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
                return End::Stuck(format!("nothing came out for {silent} s\n{why}"));
            }
        }
    }
}

/// The end of a session that failed after these lines.
fn failed(error: Error, order: &Order) -> End {
    match order.at_fault(&error) {
        Some(number) => End::Refused(number, error),
        None => End::Failed(error),
    }
}

/// What the session waits for; none if it does not say, because a call of a node goes on.
async fn ask(handle: &Handle) -> Option<Why> {
    timeout(TELL_AFTER, handle.why()).await.ok()
}

async fn in_words(handle: &Handle) -> String {
    let why = ask(handle)
        .await
        .map(|why| why.to_string().trim_end().to_owned());
    why.unwrap_or_else(|| {
        "a call of a node does not end, so the session cannot be asked".to_owned()
    })
}

/// What to make of a line that could not be sent: how the session ended, if it has ended, else that
/// the line is wrong.
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
            "side packet `{name}` comes after the graph has started: side packets come first"
        ))),
    }
}
