//! What happens when kernels are wrong, or panic.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use graphmill_kernels::Kernels;

use super::{approved, calls, check, wanted};
use crate::backend::{BatchToken, DecodeError, Slot};
use crate::spec::{CpuKernels, EngineSpec};

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
        message.starts_with("a product of Q8_0 differs by 112"),
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

/// Tokens of a prompt of one sequence, which computes for some milliseconds.
fn prompt() -> Vec<BatchToken> {
    (0..256)
        .map(|position| BatchToken {
            token: 300 + position as i32,
            position,
            slot: Slot(0),
            logits: position == 255,
            adapter: None,
        })
        .collect()
}

/// In a process of its own: panics fail whatever computes meanwhile.
#[test]
fn a_panic_fails_the_batch_that_it_is_in_and_not_the_next() {
    const ALONE: &str = "RUNS_ALONE";
    if env::var_os(ALONE).is_none() {
        let name = "backend::llama::kernels::tests::a_panic_fails_the_batch_that_it_is_in_and_not_the_next";
        let run = Command::new(env::current_exe().expect("a program"))
            .args(["--exact", name])
            .env(ALONE, "1")
            .output()
            .expect("it runs");
        assert!(run.status.success(), "{run:?}");
        return;
    }
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    if !model.exists() {
        eprintln!("skipped: there is no model at `{}`", model.display());
        return;
    }
    let spec = EngineSpec {
        max_num_batched_tokens: 256,
        max_context: Some(512),
        ..EngineSpec::new(model)
    };
    let mut served = false;
    super::super::open(&spec, &mut |loaded| {
        let backend = loaded.backend;
        let mut compute = || {
            backend.clear();
            backend
                .decode(&prompt())
                .map(|()| backend.logits().to_vec())
        };
        let expected = compute().expect("it computes");
        let stop = AtomicBool::new(false);
        let failed = thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    calls::guarded::<()>(|| panic!("as a kernel would"));
                }
            });
            // The first may be over before the other thread is there.
            let failed = (0..1000).find_map(|_| compute().err());
            stop.store(true, Ordering::Relaxed);
            failed
        });
        let message = match failed {
            Some(DecodeError::Failed(message)) => message,
            other => panic!("expected a failure, not {other:?}"),
        };
        assert_eq!(message, "a product of matrices failed");
        assert_eq!(compute().expect("it computes again"), expected);
        served = true;
    })
    .expect("the model loads");
    assert!(served);
}
