//! The queue between logging code and the writer thread: only that thread waits for the reader of
//! the log.

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

/// Bytes of lines that may wait: some thousand requests, while a reader of a pipe takes a break. As
/// many may be on their way to it.
const CAPACITY: usize = 1 << 20;

/// Takes away what stands on the terminal's line.
const CLEAR: &[u8] = b"\r\x1b[K";

/// Lines that found no room, or could not be written.
static DROPPED: std::sync::LazyLock<Counter> = std::sync::LazyLock::new(Counter::default);

/// The count of lines that were lost, for the metrics.
pub(crate) fn dropped() -> Counter {
    DROPPED.clone()
}

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Writer {
    /// Bounded by the bytes of its lines.
    entries: Sender<Entry>,
    waiting: Arc<Waiting>,
}

/// What the thread is given.
enum Entry {
    Line(Box<[u8]>),
    /// Dropped when all before it is written.
    Flush(Sender<Infallible>),
    /// Where lines go from now on.
    Target(File),
    /// What stands on the terminal until the next entry.
    Passing(String),
}

/// The numbers are independent of each other and of the channel.
#[derive(Default)]
struct Waiting {
    /// Bytes of lines that the thread has not taken.
    bytes: AtomicUsize,
    /// Lost lines that the log has not told of yet.
    untold: AtomicU64,
}

impl Writer {
    /// Starts the thread that writes to standard error.
    pub(super) fn to_standard_error() -> io::Result<Self> {
        // A separate file: other writers to standard error hold a lock while they wait.
        let to = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::over(to)
    }

    /// Starts the thread that writes to `to`.
    pub(super) fn over(to: impl Write + Send + 'static) -> io::Result<Self> {
        let (entries, to_write) = crossbeam_channel::unbounded();
        let waiting = Arc::<Waiting>::default();
        let taken = Arc::clone(&waiting);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || taken.write(&to_write, Box::new(to)))?;
        Ok(Self { entries, waiting })
    }

    /// Takes a line in, or counts it.
    pub(super) fn line(&self, line: &[u8]) {
        let with = |bytes| Some(bytes + line.len()).filter(|bytes| *bytes <= CAPACITY);
        let bytes = &self.waiting.bytes;
        let has_room = bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        // The thread is there for as long as this.
        let sent = has_room.is_ok() && self.entries.send(Entry::Line(line.into())).is_ok();
        if !sent {
            self.waiting.untold.fetch_add(1, Ordering::Relaxed);
            DROPPED.inc();
        }
    }

    /// Has lines from now on written to `file`.
    pub(super) fn go_on_in(&self, file: File) {
        // The thread is there for as long as this.
        self.entries.send(Entry::Target(file)).ok();
    }

    /// Shows a line that the next one takes the place of.
    pub(super) fn passing(&self, text: &str) {
        // As above. It comes a few times a second, so it needs no bound.
        self.entries.send(Entry::Passing(text.to_owned())).ok();
    }

    /// Waits until all lines are written, so long at most.
    pub(super) fn flush(&self, patience: Duration) {
        let (done, written) = crossbeam_channel::bounded(0);
        self.entries.send(Entry::Flush(done)).ok();
        // It gives up if there is no reader.
        written.recv_timeout(patience).ok();
    }
}

impl Waiting {
    fn write(&self, entries: &Receiver<Entry>, mut to: Box<dyn Write>) {
        let (mut lines, mut passing) = (Vec::new(), false);
        for first in entries {
            let (mut count, mut taken, mut flushes) = (0, 0, Vec::new());
            for entry in iter::once(first).chain(entries.try_iter()) {
                match entry {
                    Entry::Line(line) => {
                        if std::mem::take(&mut passing) {
                            lines.extend_from_slice(CLEAR);
                        }
                        lines.extend_from_slice(&line);
                        count += 1;
                        taken += line.len();
                    }
                    Entry::Passing(text) => {
                        lines.extend_from_slice(CLEAR);
                        lines.extend_from_slice(text.as_bytes());
                        passing = !text.is_empty();
                    }
                    Entry::Flush(done) => flushes.push(done),
                    Entry::Target(file) => {
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
                // These are lost. The next ones are tried again.
                DROPPED.inc_by(count);
            }
            lines.clear();
            drop(flushes);
            // There has to be room for the word about it.
            let untold = if self.bytes.load(Ordering::Relaxed) < CAPACITY / 2 {
                self.untold.swap(0, Ordering::Relaxed)
            } else {
                0
            };
            if untold > 0 {
                tracing::warn!(
                    lines = untold,
                    "lines of the log were lost: nobody read them fast enough"
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

/// Takes a line, which the formatter writes at once.
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
