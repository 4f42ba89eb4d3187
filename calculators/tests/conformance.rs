//! Recorded runs of the engine that the graph semantics come from, replayed here.
//!
//! The cases are in `conformance/graph` of the folder that `GRAPHMILL_SHARED` names, `../shared` beside the repository by
//! default; without them the test says so and passes. Errors have to come where they came, in our own words.

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use graphmill_calculators as _;
use graphmill_engine::{
    Environment, Handle, Kind, Packet, Plan, Registry, RunCx, Session, SidePackets, Timestamp,
};
use graphmill_grammar::{SourceMap, diag, parse_graph};
use serde_json::{Value, json};

fn shared() -> PathBuf {
    std::env::var_os("GRAPHMILL_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    )
}

#[test]
fn conformance_with_recorded_runs() {
    let folder = shared().join("conformance/graph");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: there is no {}", folder.display());
        return;
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    let registry = Registry::global();
    let (mut passed, mut skipped, mut failures) = (0, Vec::new(), Vec::new());
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a readable case");
        let case: Value = serde_json::from_str(&text).expect("a case is JSON");
        let name = case["name"].as_str().unwrap_or_default().to_owned();
        if let Some(missing) = missing_calculator(&case, &registry) {
            skipped.push(format!("{name} ({missing})"));
            continue;
        }
        match replay(&case, &registry) {
            Ok(()) => passed += 1,
            Err(difference) => failures.push(format!("{name}: {difference}")),
        }
    }
    println!(
        "{passed} passed, {} skipped: {}",
        skipped.len(),
        skipped.join(", ")
    );
    assert!(
        failures.is_empty(),
        "{} of {} cases differ:\n{}",
        failures.len(),
        files.len(),
        failures.join("\n")
    );
}

/// A calculator of the case that does not exist here, though it does where the case was recorded.
fn missing_calculator(case: &Value, registry: &Registry) -> Option<String> {
    let text = case["pbtxt"].as_str()?;
    let known: Vec<&str> = registry
        .calculators()
        .map(|calculator| calculator.name)
        .collect();
    let names = text
        .split("calculator: \"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let created = case["observed"]["create"] == "OK";
    names
        .filter(|name| created && !name.is_empty() && !known.contains(name))
        .map(str::to_owned)
        .next()
}

type Seen = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

fn replay(case: &Value, registry: &Registry) -> Result<(), String> {
    let observed = &case["observed"];
    let crashed = observed.get("crash_or_hang").is_some();
    let mut sources = SourceMap::new();
    let parsed = parse_graph(
        &mut sources,
        "case.pbtxt",
        case["pbtxt"].as_str().unwrap_or_default(),
    );
    let mut diagnostics = parsed.diagnostics;
    let mut plan = None;
    if let Some(graph) = parsed.graph {
        let compiled = Plan::compile(&graph, &mut sources, &Environment::new(registry.clone()));
        plan = compiled.0;
        diagnostics.extend(compiled.1);
    }
    let plan = plan.filter(|_| !diag::has_errors(&diagnostics));
    let created = observed["create"] == "OK" || crashed;
    let Some(plan) = plan else {
        let errors: Vec<&str> = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        return if created {
            Err(format!("refused: {}", errors.join("; ")))
        } else {
            Ok(())
        };
    };
    if !created {
        return Err(format!(
            "accepted, but the reference refuses it: {}",
            observed["create"]
        ));
    }
    let mut sides = SidePackets::new();
    for (name, side) in case["side_packets"].as_object().into_iter().flatten() {
        sides = sides.with_packet(
            name,
            packet(&side["type"], &side["value"], Timestamp::UNSET),
        );
    }
    let started = Session::new(&plan, RunCx::new("case"), sides);
    let (mut session, handle) = match started {
        Ok(started) => started,
        Err(error) if observed["start_run"] == "OK" => {
            return Err(format!("does not start: {error}"));
        }
        Err(_) => return Ok(()),
    };
    let seen = Seen::default();
    for stream in case["observe"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let (name, log) = (stream.to_owned(), Arc::clone(&seen));
        let bounds = case["observe_timestamp_bounds"] == true;
        let record = move |time: Timestamp, packet: Option<&Packet>| {
            let entry = packet.map_or_else(|| json!({"empty": true, "ts": time_name(time)}), shown);
            log.lock()
                .expect("free")
                .entry(name.clone())
                .or_default()
                .push(entry);
            Ok(())
        };
        if let Err(error) = session.observe(stream, bounds, record) {
            return if observed.get("observe_error").is_some() {
                Ok(())
            } else {
                Err(format!("cannot observe: {error}"))
            };
        }
    }
    if observed["start_run"].is_object() {
        return Err(format!(
            "starts, but the reference does not: {}",
            observed["start_run"]
        ));
    }
    if crashed {
        return Ok(());
    }
    let mut outcome = poll(&mut session);
    let by_step = case["wait_until_idle_after_each_action"] == true;
    let mut results = Vec::new();
    for action in case["actions"].as_array().into_iter().flatten() {
        let mut result = act(&handle, action);
        if matches!(&result, Err(error) if error.kind == Kind::Unavailable) && outcome.is_none() {
            // Where the queues are full, the reference waits for the graph.
            outcome = poll(&mut session);
            result = act(&handle, action);
        }
        results.push(result);
        if (by_step || matches!(action["op"].as_str(), Some("idle" | "done"))) && outcome.is_none()
        {
            outcome = poll(&mut session);
        }
    }
    handle.close_all();
    if outcome.is_none() {
        outcome = poll(&mut session);
    }
    compare(observed, &seen.lock().expect("free"), outcome, &results)
}

fn poll(session: &mut Session) -> Option<Result<(), String>> {
    loop {
        let woken = Arc::new(Woken(std::sync::atomic::AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        match Pin::new(&mut *session).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => {
                return Some(outcome.map(drop).map_err(|error| error.to_string()));
            }
            Poll::Pending if woken.0.load(std::sync::atomic::Ordering::Relaxed) => {}
            Poll::Pending => return None,
        }
    }
}

struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Does what an action says; the answer is what it gives back, `OK` or a value.
fn act(handle: &Handle, action: &Value) -> graphmill_engine::Result<Value> {
    let text = |field: &str| action[field].as_str().unwrap_or_default().to_owned();
    match action["op"].as_str() {
        Some("add") => handle.try_push(
            &text("stream"),
            packet(
                &action["type"],
                &action["value"],
                time(&action["timestamp"]),
            ),
        )?,
        Some("close") => handle.close(&text("name"))?,
        Some("close_all" | "done") => handle.close_all(),
        Some("out_side") => {
            let side = handle.side_packet(&text("name"))?;
            let mut value = side.as_ref().map_or(Value::Null, shown);
            value.as_object_mut().map(|value| value.remove("ts"));
            return Ok(value);
        }
        _ => {}
    }
    Ok(Value::from("OK"))
}

fn compare(
    observed: &Value,
    seen: &BTreeMap<String, Vec<Value>>,
    outcome: Option<Result<(), String>>,
    results: &[graphmill_engine::Result<Value>],
) -> Result<(), String> {
    let expected = observed["outputs"].as_object();
    let streams = expected
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .chain(seen.keys());
    for stream in streams {
        let wanted = expected
            .and_then(|expected| expected.get(stream))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let found = seen.get(stream).cloned().unwrap_or_default();
        let same = wanted.len() == found.len()
            && wanted
                .iter()
                .zip(&found)
                .all(|(wanted, found)| same(wanted, found));
        if !same {
            return Err(format!(
                "stream `{stream}`\n  expected {}\n  found    {}",
                Value::from(wanted),
                Value::from(found)
            ));
        }
    }
    let failed = observed["final"].is_object();
    match outcome {
        None => return Err("the session does not end".to_owned()),
        Some(Err(error)) if !failed => return Err(format!("fails: {error}")),
        Some(Ok(())) if failed => {
            return Err(format!(
                "succeeds, but the reference fails: {}",
                observed["final"]
            ));
        }
        Some(_) => {}
    }
    let recorded = observed["action_results"].as_array().into_iter().flatten();
    for (at, (recorded, result)) in recorded.zip(results).enumerate() {
        let recorded = &recorded["result"];
        let agrees = match result {
            Ok(value) => value == recorded,
            Err(_) => recorded.get("error").is_some(),
        };
        // Once a run has failed, when exactly a call notices is left to chance.
        if !failed && !agrees {
            return Err(format!(
                "action {at}: the reference says {recorded}, here it is {result:?}"
            ));
        }
    }
    Ok(())
}

fn same(wanted: &Value, found: &Value) -> bool {
    match (wanted["value"].as_f64(), found["value"].as_f64()) {
        (Some(a), Some(b)) if wanted["type"] == "float" => {
            wanted["ts"] == found["ts"] && (a - b).abs() < 1e-6
        }
        _ => wanted == found,
    }
}

const NAMES: [(&str, Timestamp); 7] = [
    ("UNSET", Timestamp::UNSET),
    ("UNSTARTED", Timestamp::UNSTARTED),
    ("PRESTREAM", Timestamp::PRE_STREAM),
    ("MIN", Timestamp::MIN),
    ("MAX", Timestamp::MAX),
    ("POSTSTREAM", Timestamp::POST_STREAM),
    ("DONE", Timestamp::DONE),
];

fn time(value: &Value) -> Timestamp {
    let named = value
        .as_str()
        .and_then(|name| NAMES.iter().find(|(known, _)| *known == name));
    named.map_or_else(
        || Timestamp::new(value.as_i64().unwrap_or_default()),
        |(_, time)| *time,
    )
}

fn time_name(time: Timestamp) -> Value {
    let named = NAMES.iter().find(|(_, known)| *known == time);
    named.map_or_else(|| Value::from(time.value()), |(name, _)| Value::from(*name))
}

fn packet(kind: &Value, value: &Value, time: Timestamp) -> Packet {
    match kind.as_str() {
        Some("bool") => Packet::new(time, value.as_bool().unwrap_or_default()),
        Some("float") => Packet::new(time, value.as_f64().unwrap_or_default()),
        Some("string") => Packet::new(time, value.as_str().unwrap_or_default().to_owned()),
        Some("int_vector") => {
            let items: Vec<i64> = value
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_i64)
                .collect();
            Packet::new(time, items)
        }
        _ => Packet::new(time, value.as_i64().unwrap_or_default()),
    }
}

fn shown(packet: &Packet) -> Value {
    let (kind, value) = if let Some(value) = packet.get::<i64>() {
        ("int", Value::from(*value))
    } else if let Some(value) = packet.get::<bool>() {
        ("bool", Value::from(*value))
    } else if let Some(value) = packet.get::<f64>() {
        ("float", Value::from(*value))
    } else if let Some(value) = packet.get::<String>() {
        ("string", Value::from(value.as_str()))
    } else if let Some(value) = packet.get::<Vec<i64>>() {
        ("int_vector", Value::from(value.clone()))
    } else {
        ("other", Value::from(format!("{:?}", packet.payload())))
    };
    json!({"ts": time_name(packet.time), "type": kind, "value": value})
}
