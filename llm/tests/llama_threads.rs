//! Which CPUs the threads of an engine on llama.cpp run on. The only test of its process: it looks
//! at all threads of it.

#![cfg(all(feature = "llama", target_os = "linux"))]

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use graphmill_llm::{
    FinishReason, GenerationRequest, LlmEngine, LlmEngineSpec, PluginConfig, StepOutput,
};

/// The list of CPUs in the status of a thread or a process.
fn cpus(status: &str) -> String {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.expect("Linux lists them").trim().to_owned()
}

/// The CPUs of each thread with this name.
fn cpus_of_threads(name: &str) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let mut found: Vec<_> = tasks
        .map(|task| task.expect("a thread").path())
        .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name))
        .filter_map(|task| fs::read_to_string(task.join("status")).ok()) // it may have ended by now
        .map(|status| cpus(&status))
        .collect();
    found.sort();
    found
}

fn generate(engine: &LlmEngine) {
    let (sender, finished) = mpsc::channel();
    let mut request = GenerationRequest::new(vec![1, 2, 3], move |output: StepOutput| {
        sender.send(output.finish).ok(); // the test may have failed already
    });
    request.max_tokens = Some(4);
    let _handle = engine.submit(request).expect("accepted");
    let finish = finished.iter().flatten().next();
    assert!(!matches!(finish, None | Some(FinishReason::Error(_))));
}

#[test]
fn threads_have_a_cpu_each_where_there_is_one_for_each() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    assert!(model.exists(), "`{}` is missing", model.display());
    let folder = tempfile::tempdir().expect("a folder");
    let all = cpus(&fs::read_to_string("/proc/self/status").expect("Linux says"));
    // Engines are told apart by the names of their models.
    let compute = |name: &str, plugin_config: &str| {
        let path = folder.path().join(name);
        fs::copy(&model, &path).expect("a copy");
        let spec = LlmEngineSpec {
            max_num_seqs: 1,
            max_context: Some(256),
            plugin_config: PluginConfig::from_json(plugin_config).expect("good knobs"),
            ..LlmEngineSpec::new(path)
        };
        let engine = LlmEngine::load(spec).expect("it loads");
        let info = engine.info().backend.compute.clone().expect("numbers");
        let threads = info.threads.max(info.batch_threads) as usize;
        let stem = name.trim_end_matches(".gguf");
        // An engine without work soon ends the threads that wait, so a slow test can come too late
        // for them.
        let computing = (0..100).find_map(|_| {
            generate(&engine);
            let computing = cpus_of_threads(&format!("engine {stem}"));
            (computing.len() == threads).then_some(computing)
        });
        let computing = computing.expect("as many threads as the engine says");
        assert_eq!(cpus_of_threads(&format!("deliver {stem}")), [all.as_str()]);
        // Once it rests, its thread runs anywhere: those that it starts next begin where it is.
        let asked = Instant::now();
        while cpus_of_threads(&format!("engine {stem}")) != [all.as_str()] {
            assert!(asked.elapsed() < Duration::from_mins(1), "it does not rest");
            thread::yield_now();
        }
        (info, computing)
    };

    let (info, free) = compute("free.gguf", r#"{"cpu_strict": false}"#);
    assert!(!info.cpu_strict && info.cpu_affinity.is_empty());
    assert!(free.iter().all(|cpus| *cpus == all), "{free:?}");

    let (info, own) = compute("own.gguf", r#"{"cpu_strict": true}"#);
    let first = info.cpu_affinity.iter().take(own.len());
    let mut first: Vec<_> = first.map(u32::to_string).collect();
    first.sort();
    assert!(info.cpu_strict);
    assert_eq!(own, first);

    let every = format!(r#"{{"threads": {}}}"#, info.cpu_affinity.len());
    let (info, every) = compute("every.gguf", &every);
    let mut expected: Vec<_> = info.cpu_affinity.iter().map(u32::to_string).collect();
    expected.sort();
    assert!(info.cpu_strict);
    assert_eq!(every, expected);

    // What is left to the system on a CPU more.
    let fewer = r#"{"threads": 1, "batch_threads": 2}"#;
    let (info, _) = compute("fewer.gguf", fewer);
    assert!(!info.cpu_strict && info.cpu_affinity.is_empty());
}
