//! The delivery thread: takes the outputs of steps and calls the sinks, so that no receiver can
//! delay a step.
//!
//! If steps are shorter than its [`pause`], it delivers the outputs of several steps at once.
//! Receivers run on the CPUs that compute. If receivers interrupted every step of two milliseconds,
//! all threads of the step would wait for the interrupted one. An urgent output is delivered at
//! once, with earlier ones of the same sequence, but without those of other sequences.
//!
//! A condition variable wakes the thread. A crossbeam receiver yields its CPU several times before
//! it sleeps. If the threads of a step hold every CPU, each yield waits for them: the 99th
//! percentile of the time between two tokens was a quarter longer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::sequence::Sequence;
use crate::lock::lock;
use crate::protocol::{FinishReason, SequenceId, StepOutput, StepSink};
use crate::worker::catch;

/// Interval between deliveries of outputs that are not urgent: less than a frame of a screen at 60
/// Hz.
const SPACING: Duration = Duration::from_millis(15);
/// Processor time to wake a receiver whose cache content is gone, and to let it write to its
/// socket.
const WAKING: Duration = Duration::from_micros(20);
/// Inverse of the share of all processors' time that may be spent on waking receivers.
const WAKING_SHARE: u32 = 20;
/// Credit at or below which a sequence needs its receivers to return some, or it will sit out
/// steps.
const LOW_CREDIT: u32 = 4;

/// Returns the time that outputs may wait if they are not urgent, by the number of outputs in a
/// step and the number of processors.
pub(super) fn pause(outputs: usize, processors: usize) -> Duration {
    let waking = WAKING * WAKING_SHARE * outputs as u32 / processors.max(1) as u32;
    waking.max(SPACING)
}

/// An output of a sequence, and its receiver.
struct Delivery {
    from: SequenceId,
    sink: Arc<dyn StepSink>,
    output: StepOutput,
}

impl Delivery {
    fn hand_over(self) {
        if let Err(message) = catch(|| self.sink.deliver(self.output)) {
            tracing::error!(%message, "a receiver of generated tokens panicked");
        }
    }
}

/// Outputs that are delivered together, in order.
#[derive(Default)]
struct Outputs {
    all: Vec<Delivery>,
    /// The sequences with an urgent output.
    urgent: Vec<SequenceId>,
    /// Maximum number of outputs in one step.
    most: usize,
}

/// The engine thread's side of the delivery.
pub(super) struct Outbox {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
    /// Outputs of the step that is being computed.
    current: Outputs,
}

/// Outputs that wait for the delivery thread. No bound is needed: a sequence produces at most as
/// many outputs as it has credit, or tokens.
#[derive(Default)]
struct Mailbox {
    content: Mutex<DeliveryState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeliveryState {
    outputs: Outputs,
    /// True if the delivery thread sleeps until there is an output.
    idle: bool,
    closed: bool,
}

impl Mailbox {
    /// Moves the waiting outputs to `held`. Waits until one of them is urgent, or until `due` has
    /// passed and there is one. Returns false once nothing more will come.
    fn take(&self, held: &mut Outputs, due: Instant) -> bool {
        let content = lock(&self.content);
        let wait = due.saturating_duration_since(Instant::now());
        let waits =
            |content: &mut DeliveryState| content.outputs.urgent.is_empty() && !content.closed;
        let (mut content, _) = self
            .changed
            .wait_timeout_while(content, wait, waits)
            .unwrap_or_else(PoisonError::into_inner);
        if held.all.is_empty() {
            content.idle = true;
            let waits =
                |content: &mut DeliveryState| content.outputs.all.is_empty() && !content.closed;
            content = self
                .changed
                .wait_while(content, waits)
                .unwrap_or_else(PoisonError::into_inner);
            content.idle = false;
        }
        let ended = content.closed && content.outputs.all.is_empty();
        held.take_in(&mut content.outputs);
        !ended
    }
}

impl Outputs {
    /// Appends all outputs of `other`.
    fn take_in(&mut self, other: &mut Self) {
        self.all.append(&mut other.all);
        self.urgent.append(&mut other.urgent);
        self.most = self.most.max(std::mem::take(&mut other.most));
    }

    /// Hands over all outputs, in order.
    fn hand_over(&mut self) {
        self.all.drain(..).for_each(Delivery::hand_over);
        self.urgent.clear();
        self.most = 0;
    }

    /// Hands over the outputs of the sequences that have an urgent one.
    fn hand_over_urgent(&mut self) {
        self.urgent.sort_unstable();
        let urgent = |delivery: &mut Delivery| self.urgent.binary_search(&delivery.from).is_ok();
        self.all
            .extract_if(.., urgent)
            .for_each(Delivery::hand_over);
        self.urgent.clear();
    }
}

impl Outbox {
    /// Starts the delivery thread; it ends when the outbox is dropped and everything is delivered.
    /// `pause` gives the time that outputs may wait if they are not urgent, by the maximum number
    /// of outputs in a step.
    pub(super) fn start(
        name: &str,
        pause: impl Fn(usize) -> Duration + Send + 'static,
    ) -> std::io::Result<Self> {
        let mailbox = Arc::<Mailbox>::default();
        let to_deliver = Arc::clone(&mailbox);
        let thread = thread::Builder::new()
            .name(format!("deliver {name}"))
            .spawn(move || {
                let mut held = Outputs::default();
                let mut due = Instant::now();
                while to_deliver.take(&mut held, due) {
                    if Instant::now() < due {
                        held.hand_over_urgent();
                    } else {
                        due = Instant::now() + pause(held.most);
                        held.hand_over();
                    }
                }
                held.hand_over();
            })?;
        Ok(Self {
            mailbox,
            thread,
            current: Outputs::default(),
        })
    }

    /// Adds an output of a sequence with this much credit left. It is handed over with the others
    /// of the step.
    pub(super) fn push(
        &mut self,
        from: SequenceId,
        sink: Arc<dyn StepSink>,
        output: StepOutput,
        credit: u32,
    ) {
        let is_first = output.usage.generated_tokens as usize <= output.tokens.len();
        if is_first || output.finish.is_some() || credit <= LOW_CREDIT {
            self.current.urgent.push(from);
        }
        self.current.all.push(Delivery { from, sink, output });
    }

    /// Adds the last output of a sequence that ends without a token.
    pub(super) fn end(&mut self, sequence: Sequence, finish: FinishReason, now: Instant) {
        let output = sequence.output(Some(finish), now);
        self.push(sequence.id, sequence.sink, output, 0);
    }

    /// Hands over the added outputs at once, if there are any.
    pub(super) fn flush(&mut self) {
        if self.current.all.is_empty() {
            return;
        }
        self.current.most = self.current.all.len();
        // The engine cannot continue without it, and ends with this panic.
        let has_ended = self.thread.is_finished();
        assert!(!has_ended, "the thread that delivers has ended");
        let mut content = lock(&self.mailbox.content);
        content.outputs.take_in(&mut self.current);
        if content.idle || !content.outputs.urgent.is_empty() {
            self.mailbox.changed.notify_one();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        lock(&self.mailbox.content).closed = true;
        self.mailbox.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::protocol::Usage;

    /// An outbox that hands over no more, after its first outputs, than what is urgent.
    fn patient() -> Outbox {
        Outbox::start("test", |_| Duration::from_hours(1)).expect("a thread starts")
    }

    /// Puts out a sequence's `count`-th token; the receiver says which one of whom it was.
    fn put_out(outbox: &mut Outbox, to: &Sender<(u64, u32)>, from: u64, count: u32, ends: bool) {
        let output = StepOutput {
            tokens: [7].into_iter().collect(),
            end_token: None,
            logprobs: Vec::new(),
            prompt_logprobs: None,
            finish: ends.then_some(FinishReason::Stop),
            usage: Usage {
                generated_tokens: count,
                ..Usage::default()
            },
            at: Instant::now(),
        };
        let to = to.clone();
        let sink = move |output: StepOutput| {
            to.send((from, output.usage.generated_tokens)).unwrap();
        };
        outbox.push(SequenceId(from), Arc::new(sink), output, 100);
    }

    #[test]
    fn an_urgent_output_goes_at_once_with_those_before_it_and_takes_no_other_along() {
        let mut outbox = patient();
        let (to, delivered) = channel();
        for count in 1..=3 {
            put_out(&mut outbox, &to, 1, count, false);
            put_out(&mut outbox, &to, 2, count, count == 3);
            outbox.flush();
            if count == 1 {
                let first = [delivered.recv().unwrap(), delivered.recv().unwrap()];
                assert_eq!(first, [(1, 1), (2, 1)]);
            }
        }
        let urgent = [delivered.recv().unwrap(), delivered.recv().unwrap()];
        assert_eq!(urgent, [(2, 2), (2, 3)]);
        drop(outbox);
        drop(to);
        let rest: Vec<_> = delivered.iter().collect();
        assert_eq!(
            rest,
            [(1, 2), (1, 3)],
            "what was left when the engine ended"
        );
    }

    #[test]
    fn all_that_waits_goes_once_the_pause_is_over() {
        let mut outbox = Outbox::start("test", |_| Duration::ZERO).expect("a thread starts");
        let (to, delivered) = channel();
        for count in 1..=3 {
            put_out(&mut outbox, &to, 1, count, false);
            outbox.flush();
        }
        let all: Vec<_> = delivered.iter().take(3).collect();
        assert_eq!(all, [(1, 1), (1, 2), (1, 3)]);
    }

    #[test]
    fn many_receivers_on_few_processors_are_woken_less_often() {
        assert_eq!(pause(1, 2), SPACING);
        assert_eq!(pause(256, 16), SPACING);
        assert_eq!(pause(256, 2), Duration::from_micros(51_200));
    }
}
