//! The kernels inside of llama.cpp: results, and what happens when they are wrong or panic.

mod mixture;

use std::cell::Cell;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use graphmill_kernels::Kernels;

use super::{ATTACHED, approved, check, wanted};
use crate::backend::interface::{Adapters, BatchToken, DecodeError, Slot};
use crate::settings::{CpuKernels, LlmEngineSpec, PluginConfig};

#[test]
fn products_that_differ_are_no_reason_to_trust_kernels() {
    let theirs = [1.0, -2.0, 3.0, 0.5];
    assert_eq!(
        check::compare("Q8_0", &[1.001, -2.0, 3.0, 0.5], &theirs),
        Ok(())
    );
    let swapped = check::compare("Q8_0", &[-2.0, 1.0, 3.0, 0.5], &theirs);
    let message = swapped.expect_err("two of them changed places");
    assert!(
        message.starts_with("a matmul of Q8_0 differs by 112"),
        "{message}"
    );
    assert!(check::compare("Q8_0", &[f32::NAN, -2.0, 3.0, 0.5], &theirs).is_err());
    assert!(check::compare("Q8_0", &[0.0; 4], &theirs).is_err());
}

#[test]
fn kernels_whose_check_failed_are_off_whoever_asks() {
    for kernels in Kernels::all() {
        assert_eq!(approved(kernels, Ok(())), Some(kernels));
        let refused = approved(kernels, Err("they are wrong".to_owned()));
        for choice in [CpuKernels::Auto, CpuKernels::On, CpuKernels::Off] {
            assert_eq!(wanted(choice, refused), None);
        }
    }
}

/// Returns true if the process has kernels, whether or not their check succeeded.
fn attached() -> bool {
    let process = super::super::process::process(Path::new("no model"));
    process.expect("it starts");
    if ATTACHED.get().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
    }
    ATTACHED.get().is_some()
}

#[test]
fn products_and_attention_are_those_of_llama_cpp() {
    if attached() {
        assert_eq!(check::all(), Ok(()));
    }
}

/// Tokens of a prompt of one sequence, which computes for some milliseconds.
fn prompt() -> Vec<BatchToken> {
    (0..256)
        .map(|position| BatchToken {
            token: 300 + position as i32,
            position,
            slot: Slot(0),
            logits: position == 255,
            hidden: false,
            adapters: Adapters::default(),
        })
        .collect()
}

thread_local! {
    static TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Panics if the test on this thread says so: it is one of those that compute.
pub(super) fn panic_if_told() {
    assert!(!TOLD.get(), "as a kernel would");
}

/// Loads the small model on a thread, as an engine does, and lets `work` compute the prompt again
/// and again.
fn computing(model: &Path, work: impl FnOnce(&mut dyn FnMut() -> Result<Vec<f32>, DecodeError>)) {
    let spec = LlmEngineSpec {
        max_num_batched_tokens: 256,
        max_context: Some(512),
        plugin_config: PluginConfig::from_json(r#"{"cpu_kernels": "on"}"#).expect("good knobs"),
        ..LlmEngineSpec::new(model)
    };
    let mut work = Some(work);
    super::super::open(&spec, &mut |loaded| {
        let backend = loaded.backend;
        let mut compute = || {
            backend.clear();
            backend
                .decode(&prompt())
                .map(|()| backend.logits().to_vec())
        };
        work.take().expect("it is opened once")(&mut compute);
    })
    .expect("the model loads");
    assert!(work.is_none());
}

#[test]
fn a_panic_fails_the_batch_that_it_is_in_and_no_other() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    if Kernels::detect().is_none() {
        eprintln!("skipped: there are no kernels for this processor");
        return;
    }
    let both_are_loaded = Barrier::new(2);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            computing(&model, |compute| {
                let expected = compute().expect("it computes");
                both_are_loaded.wait();
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(compute().expect("a panic of another pool"), expected);
                }
            });
        });
        computing(&model, |compute| {
            let expected = compute().expect("it computes");
            both_are_loaded.wait();
            for _ in 0..10 {
                TOLD.set(true);
                let message = match compute() {
                    Err(DecodeError::Failed(message)) => message,
                    other => panic!("expected a failure, not {other:?}"),
                };
                assert_eq!(message, "a matmul failed");
                TOLD.set(false);
                assert_eq!(compute().expect("it computes again"), expected);
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}
