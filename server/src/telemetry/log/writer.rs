//! The queue between logging code and the writer thread, so that only this thread waits for the
//! reader of the log.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Write},
    iter,
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender};
use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of waiting bytes, for some thousand requests while the reader pauses. As many may
/// be in the process of being written.
const CAPACITY: usize = 1 << 20;

/// Escape sequence that clears the terminal's line.
const CLEAR: &[u8] = b"\r\x1b[K";

/// Number of lines that did not fit, or could not be written.
static DROPPED: std::sync::LazyLock<Counter> = std::sync::LazyLock::new(Counter::default);

/// Returns the counter of lost lines, for the metrics.
pub(crate) fn dropped() -> Counter {
    DROPPED.clone()
}

/// Sender of lines to the writer thread.
#[derive(Clone)]
pub(crate) struct Writer {
    /// Queue, bounded by the bytes of its lines.
    entries: Sender<WriterMessage>,
    waiting: Arc<LineCounts>,
}

/// A message to the writer thread.
enum WriterMessage {
    Line(Box<[u8]>),
    /// Dropped when everything before it is written.
    Flush(Sender<Infallible>),
    /// New destination for all further lines.
    Target(File),
    /// Text on the terminal until the next message.
    Passing(String),
}

/// Counters of waiting and lost lines. They are independent of each other and of the channel.
#[derive(Default)]
struct LineCounts {
    /// Bytes of lines that the thread has not taken.
    bytes: AtomicUsize,
    /// Lost lines that have not been reported in the log.
    untold: AtomicU64,
}

impl Writer {
    /// Starts the thread, writing to standard error.
    pub(super) fn to_standard_error() -> io::Result<Self> {
        // Other writers to standard error hold a lock while they wait, so this is a separate
        // handle.
        let to = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::over(to)
    }

    /// Starts the thread, writing to `to`.
    pub(super) fn over(to: impl Write + Send + 'static) -> io::Result<Self> {
        let (entries, to_write) = crossbeam_channel::unbounded();
        let waiting = Arc::<LineCounts>::default();
        let taken = Arc::clone(&waiting);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || taken.write(&to_write, Box::new(to)))?;
        Ok(Self { entries, waiting })
    }

    /// Queues a line, or counts it as lost.
    pub(super) fn line(&self, line: &[u8]) {
        let with = |bytes| Some(bytes + line.len()).filter(|bytes| *bytes <= CAPACITY);
        let bytes = &self.waiting.bytes;
        let has_room = bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        // The thread lives as long as this sender.
        let sent = has_room.is_ok() && self.entries.send(WriterMessage::Line(line.into())).is_ok();
        if !sent {
            self.waiting.untold.fetch_add(1, Ordering::Relaxed);
            DROPPED.inc();
        }
    }

    /// Lets the thread write further lines to `file`.
    pub(super) fn go_on_in(&self, file: File) {
        // The thread lives as long as this sender.
        self.entries.send(WriterMessage::Target(file)).ok();
    }

    /// Shows a line that the next one replaces.
    pub(super) fn passing(&self, text: &str) {
        // As above. It is called a few times per second, so it needs no bound.
        self.entries
            .send(WriterMessage::Passing(text.to_owned()))
            .ok();
    }

    /// Waits until all lines are written, for at most `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let (done, written) = crossbeam_channel::bounded(0);
        self.entries.send(WriterMessage::Flush(done)).ok();
        // Times out if there is no reader.
        written.recv_timeout(patience).ok();
    }
}

impl LineCounts {
    fn write(&self, entries: &Receiver<WriterMessage>, mut to: Box<dyn Write>) {
        let (mut lines, mut passing) = (Vec::new(), false);
        for first in entries {
            let (mut count, mut taken, mut flushes) = (0, 0, Vec::new());
            for entry in iter::once(first).chain(entries.try_iter()) {
                match entry {
                    WriterMessage::Line(line) => {
                        if std::mem::take(&mut passing) {
                            lines.extend_from_slice(CLEAR);
                        }
                        lines.extend_from_slice(&line);
                        count += 1;
                        taken += line.len();
                    }
                    WriterMessage::Passing(text) => {
                        lines.extend_from_slice(CLEAR);
                        lines.extend_from_slice(text.as_bytes());
                        passing = !text.is_empty();
                    }
                    WriterMessage::Flush(done) => flushes.push(done),
                    WriterMessage::Target(file) => {
                        if to.write_all(&lines).is_err() {
                            DROPPED.inc_by(count);
                        }
                        lines.clear();
                        count = 0;
                        to = Box::new(file);
                    }
                }
            }
            self.bytes.fetch_sub(taken, Ordering::Relaxed);
            if to.write_all(&lines).is_err() {
                // These lines are lost. The next ones are tried again.
                DROPPED.inc_by(count);
            }
            lines.clear();
            drop(flushes);
            // There must be space for the message.
            let untold = if self.bytes.load(Ordering::Relaxed) < CAPACITY / 2 {
                self.untold.swap(0, Ordering::Relaxed)
            } else {
                0
            };
            if untold > 0 {
                tracing::warn!(
                    lines = untold,
                    "log lines were lost, because the reader of the log is too slow"
                );
            }
        }
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// A writer for one line, which the formatter writes at once.
pub(crate) struct Line<'a>(&'a Writer);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    /// A reader that takes a write when the test says so.
    struct Slow {
        go: Receiver<()>,
        read: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go.recv().map_err(io::Error::other)?;
            self.read.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_up_and_finds_whole_lines() {
        let ((go, to_wait), (read, lines)) = (unbounded(), unbounded());
        let writer = Writer::over(Slow { go: to_wait, read }).expect("a thread");
        let line = [b"x".repeat(1023).as_slice(), b"\n"].concat();
        let before = DROPPED.get();
        for _ in 0..5_000 {
            writer.line(&line);
        }
        let lost = DROPPED.get() - before;
        // One buffer full, and perhaps one more on its way.
        assert!((5_000 - 2 * 1024..=5_000 - 1024).contains(&lost), "{lost}");
        writer.flush(Duration::from_millis(1));
        let mut bytes = 0;
        while bytes < (5_000 - lost as usize) * 1024 {
            go.send(()).expect("it writes");
            let written: Vec<u8> = lines.recv().expect("lines");
            assert!(written.ends_with(b"\n"));
            bytes += written.len();
        }
        writer.flush(Duration::from_secs(10));
        assert_eq!(bytes, (5_000 - lost as usize) * 1024);
    }
}
