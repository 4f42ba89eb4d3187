//! How sessions end: stops, closes, failures, cancellation, and what the nodes are told.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Error, Flow, In, Kind, NoOptions, OpenCx, Out, Outs,
    Packet, Registry, Result, RunCx, Session, Side, SidePackets, testing::Harness,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::nodes::environment_with;

/// What happened, in order.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().expect("no test panics with it").push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no test panics with it"))
    }
}

#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct StepOptions {
    /// `stop`, `fail` or `panic` at the value 13, `fail open` or `fail close`.
    does: String,
    /// As a source: how many packets it makes.
    makes: i64,
}

/// Writes down what it is called for, and passes integers on; without an input, it is a source.
struct Step {
    log: Log,
    does: String,
    left: i64,
}

#[derive(Copy, Clone)]
struct StepPorts {
    input: In<i64>,
    out: Outs<i64>,
    log: Side<Log>,
}

impl Step {
    fn obey(&self, word: &str) -> Result<()> {
        if self.does == word {
            return Err(Error::invalid(format!("told to {word}")));
        }
        Ok(())
    }
}

impl Calculator for Step {
    const NAME: &'static str = "StepCalculator";
    type Options = StepOptions;
    type Ports = StepPorts;

    fn contract(c: &mut Contract, _: &StepOptions) -> StepPorts {
        StepPorts {
            input: c.optional(""),
            out: c.optional_outputs(""),
            log: c.side("LOG"),
        }
    }

    fn open(options: &StepOptions, io: StepPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        let step = Self {
            log: cx.side(io.log).cloned().unwrap_or_default(),
            does: options.does.clone(),
            left: options.makes,
        };
        step.log.add(format!("{} opens", cx.node_name()));
        step.obey("fail open")?;
        Ok(step)
    }

    fn process(&mut self, io: StepPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        assert!(cx.status().is_ok());
        let value = match cx.get(io.input) {
            Some(value) => *value,
            None if self.left == 0 => return Ok(Flow::Stop),
            None => {
                self.left -= 1;
                100 - self.left
            }
        };
        self.log.add(format!("{} {value}", cx.node_name()));
        for out in io.out.iter() {
            if io.input.is_connected() {
                cx.emit(out, value);
            } else {
                cx.emit_at(out, value, value);
            }
        }
        match (value, self.does.as_str()) {
            (13, "fail") => Err(Error::invalid("told to fail")),
            (13, "panic") => panic!("this panic is a part of the test"),
            (13, "stop") => Ok(Flow::Stop),
            _ => Ok(Flow::Continue),
        }
    }

    fn close(&mut self, io: StepPorts, cx: &mut Cx<'_>) -> Result<()> {
        let how = match cx.status() {
            Ok(()) => "well".to_owned(),
            Err(error) => format!("after {:?}: {error}", error.kind),
        };
        self.log.add(format!("{} closes {how}", cx.node_name()));
        for out in io.out.iter() {
            cx.emit(out, -1);
        }
        self.obey("fail close")
    }
}

fn start(text: &str) -> (Harness, Log) {
    let log = Log::default();
    let text = text.replace(
        "node { name",
        "node { calculator: \"StepCalculator\" input_side_packet: \"LOG:log\" name",
    );
    let environment: Environment = environment_with(Registry::new().with::<Step>());
    (
        Harness::new(&text, environment).side("log", log.clone()),
        log,
    )
}

fn does(word: &str) -> String {
    format!("node_options {{ [type.x/StepCalculatorOptions] {{ does: \"{word}\" }} }}")
}

fn chain(first: &str, second: &str) -> String {
    format!(
        r#"input_stream: "in" output_stream: "out"
        node {{ name: "a" input_stream: "in" output_stream: "x" {} }}
        node {{ name: "b" input_stream: "x" output_stream: "out" {} }}"#,
        does(first),
        does(second)
    )
}

#[test]
fn nodes_open_and_close_along_the_streams() {
    let (mut h, log) = start(&chain("", ""));
    h.push("in", 1, 1_i64);
    h.finish();
    assert_eq!(
        log.take(),
        [
            "a opens",
            "b opens",
            "a 1",
            "b 1",
            "a closes well",
            "b -1",
            "b closes well"
        ]
    );
    h.expect("out", [(1, 1_i64), (2, -1), (3, -1)]);
}

#[test]
fn after_an_error_open_nodes_are_closed_and_told() {
    let (mut h, log) = start(&chain("", "fail"));
    h.push("in", 1, 13_i64);
    let error = h.error();
    assert_eq!(error.to_string(), "node `b`: told to fail");
    h.expect_nothing("out");
    let why = "after InvalidArgument: node `b`: told to fail";
    assert_eq!(
        log.take()[2..],
        [
            "a 13".to_owned(),
            "b 13".to_owned(),
            format!("a closes {why}"),
            format!("b closes {why}")
        ]
    );
}

#[test]
fn a_node_that_panicked_is_not_called_again() {
    let (mut h, log) = start(&chain("", "panic"));
    h.push("in", 1, 13_i64);
    assert_eq!(h.error().kind, Kind::Internal);
    let log = log.take();
    assert!(
        log[4].starts_with("a closes after Internal: node `b`: the calculator panicked"),
        "{log:?}"
    );
    assert_eq!(log.len(), 5);
}

#[test]
fn a_node_that_fails_to_open_is_not_closed() {
    let (mut h, log) = start(&chain("", "fail open"));
    assert_eq!(h.start().error().to_string(), "node `b`: told to fail open");
    let log = log.take();
    assert_eq!(log[..2], ["a opens", "b opens"]);
    assert!(log[2].starts_with("a closes after"));
    assert_eq!(log.len(), 3);
}

#[test]
fn a_node_that_fails_to_close_is_not_closed_again() {
    let (mut h, log) = start(&chain("fail close", ""));
    h.close("in");
    assert_eq!(h.error().to_string(), "node `a`: told to fail close");
    assert_eq!(
        log.take()[2..],
        [
            "a closes well",
            "b closes after InvalidArgument: node `a`: told to fail close"
        ]
    );
}

#[test]
fn errors_in_a_close_that_follows_an_error_change_nothing() {
    let (mut h, log) = start(&chain("fail close", "fail"));
    h.push("in", 1, 13_i64);
    assert_eq!(h.error().to_string(), "node `b`: told to fail");
    assert_eq!(log.take().len(), 6);
}

#[test]
fn cancelling_closes_what_is_open_and_dropping_does_not() {
    let (h, log) = start(&chain("", ""));
    let session = || {
        let sides = SidePackets::new().with("log", log.clone());
        Session::new(h.plan(), RunCx::new("x"), sides).expect("starts")
    };
    let poll =
        |session: &mut Session| Pin::new(session).poll(&mut Context::from_waker(Waker::noop()));
    let (mut cancelled, handle) = session();
    assert!(poll(&mut cancelled).is_pending());
    handle.cancel();
    assert!(matches!(poll(&mut cancelled), Poll::Ready(Err(_))));
    let why = "closes after Cancelled: the session was cancelled";
    assert_eq!(log.take()[2..], [format!("a {why}"), format!("b {why}")]);

    let (mut dropped, _handle) = session();
    assert!(poll(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(log.take(), ["a opens", "b opens"]);
}

const SOURCES: &str = r#"
    input_stream: "in"
    node { name: "s" output_stream: "n" node_options { [type.x/StepCalculatorOptions] { makes: 5 } } }
    node { name: "late" output_stream: "m" source_layer: 1 node_options { [type.x/StepCalculatorOptions] { makes: 5 } } }
    node { name: "a" input_stream: "in" output_stream: "x" node_options { [type.x/StepCalculatorOptions] { does: "stop" } } }
    node { name: "b" input_stream: "x" }"#;

#[test]
fn a_source_that_stops_is_closed_and_the_rest_goes_on() {
    let (mut h, log) = start(SOURCES);
    h.start();
    let calls = log.take();
    assert_eq!(calls[4], "s 96");
    let at = |line: &str| {
        calls
            .iter()
            .position(|other| other == line)
            .expect("it happened")
    };
    assert!(
        at("s closes well") < at("late 96"),
        "layers follow each other"
    );
    h.push("in", 1, 1_i64);
    h.finish();
}

#[test]
fn a_node_that_stops_closes_itself_and_the_sources() {
    let (h, log) = start(SOURCES);
    let sides = SidePackets::new().with("log", log.clone());
    let (mut session, handle) = Session::new(h.plan(), RunCx::new("x"), sides).expect("starts");
    // What is sent before the session starts is dealt with before its sources are.
    handle.try_push("in", Packet::new(1, 13_i64)).expect("room");
    handle.try_push("in", Packet::new(2, 14_i64)).expect("room");
    let mut poll = || Pin::new(&mut session).poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending(), "the graph input is open");
    let calls = log.take();
    assert_eq!(
        calls[4..],
        [
            "a 13",
            "s closes well",
            "late closes well",
            "a closes well",
            "b 13",
            "b -1",
            "b closes well"
        ],
        "what was emitted before the stop arrives, what came after it does not"
    );
    handle.close_all();
    assert!(matches!(poll(), Poll::Ready(Ok(_))));
}

#[test]
fn a_graph_can_be_told_to_run_out() {
    let endless = SOURCES.replace("makes: 5", "makes: -1");
    let (h, log) = start(&endless);
    let sides = SidePackets::new().with("log", log.clone());
    let (mut session, handle) = Session::new(h.plan(), RunCx::new("x"), sides).expect("starts");
    let mut poll = || Pin::new(&mut session).poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending(), "a source that never stops");
    log.take();
    handle.try_push("in", Packet::new(1, 1_i64)).expect("room");
    handle.stop();
    handle.stop();
    assert!(matches!(poll(), Poll::Ready(Ok(_))));
    let calls = log.take();
    assert!(
        calls.contains(&"b 1".to_owned()),
        "what is on its way arrives: {calls:?}"
    );
    assert!(calls.contains(&"s closes well".to_owned()), "{calls:?}");
}

/// A source that needs a side packet.
struct Needy;

impl Calculator for Needy {
    const NAME: &'static str = "NeedyCalculator";
    type Options = NoOptions;
    type Ports = (Side<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.side("VALUE"), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}

#[test]
fn a_layer_that_never_starts_is_an_error() {
    let text = r#"
        node { name: "late" calculator: "CountCalculator" output_stream: "n" source_layer: 1 }
        node { calculator: "MakeSideCalculator" input_stream: "IN:n" output_side_packet: "OUT:s" }
        node { name: "early" calculator: "NeedyCalculator" input_side_packet: "VALUE:s" output_stream: "out" }"#;
    let mut h = Harness::new(text, environment_with(Registry::new().with::<Needy>()));
    let error = h.start().error();
    assert_eq!(error.kind, Kind::FailedPrecondition);
    assert_eq!(
        error.to_string(),
        "node `late`: deadlock: the source never starts, because source `early` of the lower layer 0 never opens"
    );
}
