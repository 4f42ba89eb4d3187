//! An engine that fails, and the one in its place.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use graphmill_llm::{
    ErrorKind, FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, LlmEngineState,
    StepOutput, SubmitError, SupervisedEngine,
};

use super::chat;

const PATIENCE: Duration = Duration::from_secs(20);

/// An engine that hangs where it is told to, and the file that lets it go on.
fn hanging(
    folder: &std::path::Path,
    step_timeout_ms: u32,
) -> (SupervisedEngine<LlmEngine>, std::path::PathBuf) {
    let (script, release) = (folder.join("m.script.json"), folder.join("release"));
    let text = format!(
        r#"{{"release": "{}", "replies": [{{"when": "hang", "text": "x", "then": "hang"}}, {{"text": "fine"}}]}}"#,
        release.display()
    );
    std::fs::write(&script, text).expect("writable");
    let spec = LlmEngineSpec {
        step_timeout_ms,
        ..LlmEngineSpec::new(script)
    };
    (
        SupervisedEngine::<LlmEngine>::load(spec).expect("a good script"),
        release,
    )
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never {what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_that_was_given_up_is_not_heard_any_more_and_keeps_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let (engine, release) = hanging(folder.path(), 300);
    let old = engine.current();
    let (sender, outputs) = mpsc::channel();
    let request = GenerationRequest::new(chat(&old, "hang"), move |output: StepOutput| {
        sender.send(output).expect("the test listens");
    });
    let handle = old.submit(request).expect("accepted");
    let finish = loop {
        let output = outputs.recv_timeout(PATIENCE).expect("an output");
        if let Some(finish) = output.finish {
            break finish;
        }
    };
    let FinishReason::Error(error) = finish else {
        panic!("ended with {finish:?}")
    };
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("step_timeout"), "{error}");
    // Whoever still knows the old engine is told.
    let late = GenerationRequest::new(chat(&old, "hello"), |_: StepOutput| {});
    assert!(matches!(old.submit(late), Err(SubmitError::Failed(_))));
    let told = mpsc::channel();
    let asked = old.preview(chat(&old, "hello"), &[], &"".into(), &[], move |answer| {
        told.0.send(answer).ok();
    });
    assert!(matches!(asked, Err(SubmitError::Failed(_))));

    until("started again", || {
        engine.health().state == LlmEngineState::Running
    });
    let health = engine.health();
    assert!(health.restarts >= 1, "{health:?}");
    // Nothing waits for the thread that hangs.
    let began = Instant::now();
    drop(old);
    drop(engine);
    assert!(began.elapsed() < Duration::from_secs(4));
    // The old thread goes on, and says more, which nobody hears.
    std::fs::write(release, "").expect("writable");
    drop(handle);
    let more = outputs.recv_timeout(PATIENCE);
    assert_eq!(more.map(|_| ()), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn an_engine_that_has_a_lot_to_do_is_not_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (engine, _) = hanging(folder.path(), 10_000);
    let current = engine.current();
    let (sender, outputs) = mpsc::channel();
    let handles: Vec<_> = (0..200)
        .map(|_| {
            let sender = sender.clone();
            let request =
                GenerationRequest::new(chat(&current, "hello"), move |output: StepOutput| {
                    if let Some(finish) = output.finish {
                        sender.send(finish).expect("the test listens");
                    }
                });
            current.submit(request).expect("accepted")
        })
        .collect();
    for _ in &handles {
        assert_eq!(outputs.recv_timeout(PATIENCE), Ok(FinishReason::Stop));
    }
    assert_eq!(engine.health().restarts, 0);
}
