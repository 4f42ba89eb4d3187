//! Does what a case says and notes what happens, in the form of the recordings.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use graphmill_engine::{
    Environment, Error, Handle, Kind, Packet, Plan, Reason, Registry, RunCx, Session, SidePackets,
    Timestamp,
};
use graphmill_grammar::{SourceMap, diag, parse_graph};
use serde_json::{Map, Value, json};

use crate::conformance::values::{packet, shown, time, time_name};

/// The observation of a case here.
pub(crate) fn replay(case: &Value) -> Value {
    let mut run = Map::new();
    match compile(case) {
        Ok(plan) => {
            run.insert("create".to_owned(), ok());
            start(case, &plan, &mut run);
        }
        Err(message) => {
            run.insert("create".to_owned(), json!({"error": message}));
        }
    }
    Value::Object(run)
}

fn ok() -> Value {
    Value::from("OK")
}

fn failed(error: &Error) -> Value {
    json!({"error": error.to_string()})
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn compile(case: &Value) -> Result<Arc<Plan>, String> {
    let mut sources = SourceMap::new();
    let text = case["pbtxt"].as_str().unwrap_or_default();
    let parsed = parse_graph(&mut sources, "case.pbtxt", text);
    let mut diagnostics = parsed.diagnostics;
    let mut plan = None;
    if let Some(graph) = parsed.graph {
        let environment = Environment::new(Registry::global());
        let compiled = Plan::compile(&graph, &mut sources, &environment);
        plan = compiled.0;
        diagnostics.extend(compiled.1);
    }
    let has_errors = diag::has_errors(&diagnostics);
    plan.filter(|_| !has_errors).ok_or_else(|| {
        let errors = diagnostics.iter().filter(|found| found.is_error());
        let messages: Vec<&str> = errors.map(|error| error.message.as_str()).collect();
        messages.join("; ")
    })
}

/// What observers see: by stream, and by the action that was under way and then by stream.
#[derive(Default)]
struct Seen {
    outputs: Map<String, Value>,
    by_action: Map<String, Value>,
}

fn append(streams: &mut Map<String, Value>, stream: &str, entry: Value) {
    let entries = streams.entry(stream).or_insert_with(|| json!([]));
    if let Value::Array(entries) = entries {
        entries.push(entry);
    }
}

fn start(case: &Value, plan: &Arc<Plan>, run: &mut Map<String, Value>) {
    let mut sides = SidePackets::new();
    for (name, side) in case["side_packets"].as_object().into_iter().flatten() {
        let value = packet(&side["type"], &side["value"], Timestamp::UNSET);
        sides = sides.with_packet(name, value);
    }
    let started = Session::new(plan, RunCx::new("case"), sides);
    let (mut session, handle) = match started {
        Ok(started) => started,
        Err(error) => {
            run.insert("start_run".to_owned(), failed(&error));
            return;
        }
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let at = Arc::new(AtomicI64::new(-1));
    if let Err(error) = observe(case, &mut session, &seen, &at) {
        run.insert("observe_error".to_owned(), failed(&error));
        return;
    }
    let mut started = Started {
        session,
        handle,
        outcome: None,
        over: false,
    };
    run.insert("start_run".to_owned(), ok());
    act(case, &mut started, run, &at);
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    run.insert("outputs".to_owned(), Value::Object(seen.outputs));
    if by_step(case) {
        run.insert("outputs_by_action".to_owned(), seen.by_action.into());
    }
}

fn by_step(case: &Value) -> bool {
    case["wait_until_idle_after_each_action"] != false
}

fn observe(
    case: &Value,
    session: &mut Session,
    seen: &Arc<Mutex<Seen>>,
    at: &Arc<AtomicI64>,
) -> Result<(), Error> {
    for stream in list(case, "observe").filter_map(Value::as_str) {
        let (name, seen, at) = (stream.to_owned(), Arc::clone(seen), Arc::clone(at));
        let bounds = case["observe_timestamp_bounds"] == true;
        session.observe(stream, bounds, move |time, packet| {
            let entry = packet.map_or_else(|| json!({"empty": true, "ts": time_name(time)}), shown);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            append(&mut seen.outputs, &name, entry.clone());
            let action = at.load(Ordering::Relaxed).to_string();
            let action = seen.by_action.entry(action).or_insert_with(|| json!({}));
            if let Value::Object(streams) = action {
                append(streams, &name, entry);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn act(case: &Value, started: &mut Started, run: &mut Map<String, Value>, at: &AtomicI64) {
    let actions: Vec<&Value> = list(case, "actions").collect();
    let recorded: Vec<&Value> = list(&case["observed"], "action_results").collect();
    let mut results = Vec::new();
    if by_step(case) {
        started.run();
    }
    let mut done = false;
    for (number, action) in actions.iter().enumerate() {
        at.store(number as i64, Ordering::Relaxed);
        let mut result = Map::new();
        let kind = recorded
            .get(number)
            .map(|recorded| &recorded["result"]["kind"]);
        if matches!(
            kind.and_then(Value::as_str),
            Some("OverflowError" | "TypeError")
        ) {
            // The packet could not be made there, so it was never sent.
            result.insert("result".to_owned(), recorded[number]["result"].clone());
        } else {
            let given = started.act(action).unwrap_or_else(|error| failed(&error));
            result.insert("result".to_owned(), given);
        }
        done |= action["op"] == "done";
        if by_step(case)
            && !done
            && let Some(Err(error)) = started.run()
        {
            result.insert("idle".to_owned(), failed(error));
        }
        results.push(Value::Object(result));
    }
    at.store(actions.len() as i64 + 1, Ordering::Relaxed);
    if !done {
        started.handle.close_all();
        results.push(json!({"result": "OK"}));
        run.insert("final".to_owned(), started.done());
    } else if actions.last().is_some_and(|last| last["op"] == "done") {
        let last = results.last().map(|last| last["result"].clone());
        run.insert("final".to_owned(), last.unwrap_or_default());
    }
    run.insert("action_results".to_owned(), Value::from(results));
}

struct Started {
    session: Session,
    handle: Handle,
    outcome: Option<Result<(), Error>>,
    /// Somebody has waited for the end.
    over: bool,
}

impl Started {
    /// Does what an action says; gives what it gives back, `OK` or a value.
    fn act(&mut self, action: &Value) -> Result<Value, Error> {
        let text = |field: &str| action[field].as_str().unwrap_or_default();
        match text("op") {
            // There a graph that was waited for is as if it had not been started; a session here is
            // one run.
            "add" if self.over => return Err(Error::precondition("the run is over")),
            "add" => {
                let (kind, value) = (&action["type"], &action["value"]);
                let made = || packet(kind, value, time(&action["timestamp"]));
                match self.handle.try_push(text("stream"), made()) {
                    // Where the queues are full, the recording waited for the graph.
                    Err(error) if error.kind == Kind::Unavailable && self.outcome.is_none() => {
                        self.run();
                        self.handle.try_push(text("stream"), made())?;
                    }
                    pushed => pushed?,
                }
            }
            "close" => self.handle.close(text("name"))?,
            "close_all" => self.handle.close_all(),
            "idle" => {
                if let Some(Err(error)) = self.run() {
                    return Err(error.clone());
                }
            }
            "done" => return Ok(self.done()),
            "out_side" => {
                let side = self.handle.side_packet(text("name"))?;
                let side: Packet = side.ok_or_else(|| Error::unavailable("not set yet"))?;
                let mut value = shown(&side);
                value.as_object_mut().map(|value| value.remove("ts"));
                return Ok(value);
            }
            other => return Err(Error::invalid(format!("unknown action `{other}`"))),
        }
        Ok(ok())
    }

    fn done(&mut self) -> Value {
        if std::mem::replace(&mut self.over, true) {
            return ok();
        }
        match self.run() {
            Some(Ok(())) => ok(),
            Some(Err(error)) => failed(error),
            None => json!({"error": "the session does not end"}),
        }
    }

    /// Runs the session until it has ended or waits for the outside.
    fn run(&mut self) -> Option<&Result<(), Error>> {
        let woken = Arc::new(Woken {
            flag: AtomicBool::new(false),
            thread: std::thread::current(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        while self.outcome.is_none() {
            match Pin::new(&mut self.session).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => self.outcome = Some(outcome.map(drop)),
                Poll::Pending => {
                    while !woken.flag.swap(false, Ordering::Acquire) {
                        if !self.works_elsewhere() {
                            return None;
                        }
                        std::thread::park();
                    }
                }
            }
        }
        self.outcome.as_ref()
    }

    /// Whether a node is in a call on another thread.
    fn works_elsewhere(&self) -> bool {
        let why = self.session.why();
        why.nodes
            .iter()
            .any(|wait| matches!(wait.reason, Reason::Executor { .. }))
    }
}

struct Woken {
    flag: AtomicBool,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
