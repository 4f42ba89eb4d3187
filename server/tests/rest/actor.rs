//! A node that does what the request's body says, so that a test can produce any answer and any
//! failure through a real graph.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, mpsc},
    time::Duration,
};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{
    Calculator, Contract, Cx, Error, EventSender, Events, Flow, In, Kind, NoOptions, OpenCx, Out,
    Result, register,
};
use serde_json::Value;
use tokio::sync::oneshot;

/// Plays the `actions` of the body, one a call: `{"event": data}`, `{"body": text}`,
/// `{"done": true}`, `{"fail": {"kind", "message", "code", "field"}}`, `{"panic": message}`,
/// `{"hang": true}`, `{"block": milliseconds}`, which computes in the session's task, and
/// `{"gate": name}`, which does so until the [`Gate`] is dropped. After the last one it ends.
struct Actor {
    next: EventSender<()>,
    actions: VecDeque<Value>,
}

#[derive(Copy, Clone)]
struct Ports {
    request: In<HttpRequestPayload>,
    response: Out<HttpResponse>,
    next: Events<()>,
}

impl Calculator for Actor {
    const NAME: &'static str = "ActorCalculator";
    const DOC: &'static str = "Plays the actions that the request's body lists.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        Ports {
            request: c.input("HTTP_REQUEST_PAYLOAD"),
            response: c.output("HTTP_RESPONSE_PAYLOAD"),
            next: c.events(),
        }
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            next: cx.sender(io.next),
            actions: VecDeque::new(),
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(request) = cx.take(io.request) {
            let json = request.json.as_deref().expect("the server parses bodies");
            self.actions = json
                .get("actions")
                .expect("a value")
                .expect("actions")
                .as_array()
                .cloned()
                .unwrap_or_default()
                .into();
        } else {
            cx.event(io.next);
            let Some(action) = self.actions.pop_front() else {
                return Ok(Flow::Stop);
            };
            let (verb, argument) = action
                .as_object()
                .and_then(|action| action.iter().next())
                .expect("an action");
            let text = argument.as_str().unwrap_or_default();
            match verb.as_str() {
                "event" => cx.emit(io.response, HttpResponse::Event(text.to_owned())),
                "body" => cx.emit(
                    io.response,
                    HttpResponse::Body {
                        content_type: "text/plain",
                        bytes: text.to_owned().into(),
                    },
                ),
                "done" => cx.emit(io.response, HttpResponse::Done),
                "fail" => return Err(failure(argument)),
                "panic" => panic!("{text}"),
                "hang" => return Ok(Flow::Continue),
                "block" => {
                    let millis = argument.as_u64().expect("milliseconds");
                    std::thread::sleep(Duration::from_millis(millis));
                }
                "gate" => Gate::pass(text),
                other => panic!("no action is called {other}"),
            }
        }
        self.next
            .send(())
            .expect("the session lives while its node runs");
        Ok(Flow::Continue)
    }
}

register!(Actor);

/// The actor's side of a gate: told that it is there, and open once nothing comes any more.
type ActorSide = (oneshot::Sender<()>, mpsc::Receiver<()>);

/// Those of the gates that tests have made, by name.
static GATES: Mutex<BTreeMap<String, ActorSide>> = Mutex::new(BTreeMap::new());

/// Where an actor stops, in its session's task, until the test drops this.
pub(crate) struct Gate {
    reached: Option<oneshot::Receiver<()>>,
    _closed: mpsc::Sender<()>,
}

impl Gate {
    pub(crate) fn new(name: &str) -> Self {
        let (at_gate, reached) = oneshot::channel();
        let (closed, opens) = mpsc::channel();
        let mut gates = GATES.lock().expect("no test has failed in here");
        gates.insert(name.to_owned(), (at_gate, opens));
        Self {
            reached: Some(reached),
            _closed: closed,
        }
    }

    /// Waits until the actor is there.
    pub(crate) async fn reached(&mut self) {
        let reached = self.reached.take().expect("asked once");
        reached.await.expect("an actor gets there");
    }

    fn pass(name: &str) {
        let mut gates = GATES.lock().expect("no test has failed in here");
        let (at_gate, opens) = gates.remove(name).expect("a test has made it");
        drop(gates);
        // The test may not wait for it.
        let _ = at_gate.send(());
        // Nothing is sent: the test drops its side.
        let _ = opens.recv();
    }
}

fn failure(argument: &Value) -> Error {
    let text = |key: &str| argument[key].as_str().map(str::to_owned);
    let kind = match argument["kind"].as_str().expect("a kind") {
        "invalid" => Kind::InvalidArgument,
        "not_found" => Kind::NotFound,
        "precondition" => Kind::FailedPrecondition,
        "exhausted" => Kind::ResourceExhausted,
        "deadline" => Kind::DeadlineExceeded,
        "cancelled" => Kind::Cancelled,
        "unavailable" => Kind::Unavailable,
        "internal" => Kind::Internal,
        other => panic!("no kind is called {other}"),
    };
    let mut error = Error::new(kind, text("message").unwrap_or_default());
    if let Some(code) = text("code") {
        error = error.with_code(code);
    }
    if let Some(field) = text("field") {
        error = error.with_field(field);
    }
    error
}
