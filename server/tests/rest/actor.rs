//! A node that does what the request's body says, so that a test can produce any answer and any
//! failure through a real graph.

use std::{collections::VecDeque, time::Duration};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{
    Calculator, Contract, Cx, Error, EventSender, Events, Flow, In, Kind, NoOptions, OpenCx, Out,
    Result, register,
};
use serde_json::Value;

/// Plays the `actions` of the body, one a call: `{"event": data}`, `{"body": text}`,
/// `{"done": true}`, `{"fail": {"kind", "message", "code", "field"}}`, `{"panic": message}`,
/// `{"hang": true}`, `{"block": milliseconds}`, which computes in the session's task. After the last
/// one it ends.
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
