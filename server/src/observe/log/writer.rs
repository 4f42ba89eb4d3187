//! The buffer between those who log and the thread that writes: nobody but that thread waits for whoever reads the log.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd as _,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that may wait: some thousand requests, while a reader of a pipe takes a break. As many may be on their way to it.
const CAPACITY: usize = 1 << 20;

/// Lines that found no room, or could not be written.
static DROPPED: std::sync::LazyLock<Counter> = std::sync::LazyLock::new(Counter::default);

/// The count of lines that were lost, for the metrics.
pub(crate) fn dropped() -> Counter {
    DROPPED.clone()
}

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Writer(Arc<Buffer>);

struct Buffer {
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// All is written.
    drained: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    /// How many these are.
    count: u64,
    /// The thread writes something that it has taken.
    writing: bool,
    /// Lost lines that the log has not told of yet.
    untold: u64,
}

impl Writer {
    /// Starts the thread that writes to standard error.
    pub(super) fn start() -> io::Result<Self> {
        // A file of its own: whoever else writes to standard error holds a lock while it waits.
        let to = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::over(to)
    }

    fn over(to: impl Write + Send + 'static) -> io::Result<Self> {
        let writer = Self(Arc::new(Buffer {
            state: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
        }));
        let buffer = Arc::clone(&writer.0);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || buffer.write_to(to))?;
        Ok(writer)
    }

    /// Takes a line in, or counts it.
    pub(super) fn line(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.lines.len() + line.len() > CAPACITY {
            state.untold += 1;
            drop(state);
            DROPPED.inc();
        } else {
            state.lines.extend_from_slice(line);
            state.count += 1;
            drop(state);
            self.0.filled.notify_one();
        }
    }

    /// Waits until all lines are written, so long at most.
    pub(super) fn flush(&self, patience: Duration) {
        let state = self.0.lock();
        let busy = |state: &mut State| state.writing || !state.lines.is_empty();
        // It gives up where nobody reads.
        drop(
            self.0
                .drained
                .wait_timeout_while(state, patience, busy)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut to: impl Write) {
        let mut taken = Vec::new();
        loop {
            let empty = |state: &mut State| state.lines.is_empty();
            let mut state = self
                .filled
                .wait_while(self.lock(), empty)
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut state.lines, &mut taken);
            let count = std::mem::take(&mut state.count);
            state.writing = true;
            drop(state);
            if to.write_all(&taken).is_err() {
                // Nobody will ever read these. The next ones are tried again.
                DROPPED.inc_by(count);
            }
            taken.clear();
            let mut state = self.lock();
            state.writing = false;
            // There has to be room for the word about it.
            let untold = if state.lines.len() < CAPACITY / 2 {
                std::mem::take(&mut state.untold)
            } else {
                0
            };
            if state.lines.is_empty() {
                self.drained.notify_all();
            }
            drop(state);
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
    use std::sync::mpsc::{Receiver, Sender, channel};

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
        let ((go, to_wait), (read, lines)) = (channel(), channel());
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
