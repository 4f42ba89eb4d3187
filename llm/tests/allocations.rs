//! What a step allocates once an engine is warm: counted, so that a regression shows without a
//! clock.
//!
//! A program without a test harness, because the allocator counts for the whole process, the
//! harness's threads included.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use dhat::HeapStats;
use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{GenerationRequest, LlmEngine, LlmEngineSpec, StepOutput, StepSink};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SEQUENCES: usize = 8;
/// Steps after which nothing is new any more, and how many are then watched at a time, how often.
const WARM: u64 = 300;
const WATCHED: u64 = 200;
const TIMES: u64 = 8;

/// Notes how many blocks the process allocates in each of the watched stretches of steps.
struct Watch {
    outputs: AtomicU64,
    begin: AtomicU64,
    done: mpsc::Sender<u64>,
}

impl StepSink for Watch {
    fn deliver(&self, _: StepOutput) {
        let outputs = self.outputs.fetch_add(1, Ordering::Relaxed) + 1;
        if outputs < WARM || !(outputs - WARM).is_multiple_of(WATCHED) {
            return;
        }
        let blocks = HeapStats::get().total_blocks;
        let before = self.begin.swap(blocks, Ordering::Relaxed);
        if outputs > WARM {
            self.done.send(blocks - before).ok(); // the receiver takes as many as it needs
        }
    }
}

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let spec = LlmEngineSpec::new("counting.script.json");
    let to_open = spec.clone();
    let engine = LlmEngine::with_backend(spec, move || {
        Ok(ScriptedBackend::new(Script::default(), &to_open))
    })
    .expect("the engine starts");
    let (done, allocated) = mpsc::channel();
    let watch = Watch {
        outputs: AtomicU64::new(0),
        begin: AtomicU64::new(0),
        done,
    };
    // The script counts from the prompt's last token on, forever.
    let mut handles: Vec<_> = (1..SEQUENCES as i32)
        .map(|token| engine.submit(GenerationRequest::new(vec![token], |_: StepOutput| {})))
        .collect();
    handles.push(engine.submit(GenerationRequest::new(vec![0], watch)));
    let allocated: Vec<u64> = (0..TIMES)
        .map(|_| allocated.recv().expect("the watched steps end"))
        .collect();
    assert!(handles.iter().all(Result::is_ok));
    // Texts grow, and so does what a receiver that falls behind leaves undelivered: now and then a
    // block, not one in each step.
    assert!(
        allocated.contains(&0),
        "blocks allocated in {WATCHED} steps of {SEQUENCES} sequences, {TIMES} times: {allocated:?}"
    );
    drop(handles);
}
