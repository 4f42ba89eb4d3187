//! `POST /v3/playground`: a graph that is not served is run once, with models of those that are.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use graphmill_calculators::payload::Account;
use graphmill_engine::{Packet, Plan, Timeline};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::timeout,
};

use super::{authoring, query::wrong, tap::described};
use crate::{
    app::state::App,
    bodies::Share,
    config::Observation,
    errors::{Cause, Failure},
    http::asker::Asker,
    offline::{
        play::{Kept, Play},
        test_file::{Bench, Case, TestFile},
    },
    run::RequestContext,
    servable::{Servable, Servables, request_stream},
    sessions::{MAX_EVENTS, trace_events},
};

/// How long a run may take.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The most packets that come out of a run.
const MAX_PACKETS: usize = 1_000;

/// How long a session that was ended may take to tell what it did.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialRequest {
    graph: String,
    /// The served graph beside which the text would lie.
    beside: Option<String>,
    test: Option<String>,
    path: Option<String>,
    body: Option<Value>,
}

/// What is sent into the graph.
enum Input {
    Test(TestFile),
    Request { path: String, body: Value },
}

pub(super) async fn run(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let place = app.sessions.trial()?;
    let (parts, body) = request.into_parts();
    let who = RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?;
    let share = app.bodies.share(&parts.extensions);
    let body = app.read_share(&share, &parts, body).await?;
    authoring::check_length("the body", &body)?;
    let mut asked: TrialRequest = authoring::read(&body)?;
    let beside = asked.beside.as_ref();
    let beside = beside.map(|name| super::graph(&app, name)).transpose()?;
    let mut audited = Audited {
        asker: Asker(who.caller.clone()),
        subject: asked.beside.take(),
        outcome: "failed",
        reason: Some("the client left, or the server could not run it"),
    };
    let input = input(asked.test, asked.path, asked.body);
    let input = input.inspect_err(|_| audited.ends("refused"))?;
    let servables = app.servables();
    let observation = servables.observation().clone();
    // Compiling may take a while, and this thread serves requests.
    let work = move || make(&servables, beside.as_deref(), &asked.graph, input);
    let made = share.beside(work, "the compilation failed").await;
    let made = made.unwrap_or_else(Err);
    match made.inspect_err(|_| audited.ends("refused"))? {
        Made::Refused(response) => {
            audited.ends("refused");
            Ok(response)
        }
        Made::Ready(plan, case) => {
            // Before the answer's end is sent: the next request may follow at once.
            let _settlement = who.settlement();
            let played = play(&who, plan, case, place, observation, &share);
            let told = who.guard(None).wait(played).await?;
            let went_well = told["error"].is_null();
            audited.ends(if went_well { "done" } else { "failed" });
            Ok(Json(told).into_response())
        }
    }
}

/// The line of a run in the audit log, written when this is dropped.
struct Audited {
    asker: Asker,
    /// The served graph that the run is about, if any.
    subject: Option<String>,
    outcome: &'static str,
    reason: Option<&'static str>,
}

impl Audited {
    fn ends(&mut self, outcome: &'static str) {
        (self.outcome, self.reason) = (outcome, None);
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        let subject = self.subject.as_deref().unwrap_or("playground");
        self.asker.audit("try", subject, self.outcome, self.reason);
    }
}

fn input(
    test: Option<String>,
    path: Option<String>,
    body: Option<Value>,
) -> Result<Input, Failure> {
    match (test, path, body) {
        (Some(test), None, None) => {
            let test = TestFile::parse_case(&test);
            test.map(Input::Test)
                .map_err(|why| wrong("test", &format!("cannot be read: {why}")))
        }
        (None, Some(path), Some(body @ Value::Object(_))) if path.starts_with('/') => {
            Ok(Input::Request { path, body })
        }
        (None, Some(path), Some(_)) if path.starts_with('/') => Err(wrong("body", "is no object")),
        (None, Some(_), Some(_)) => Err(wrong("path", "does not begin with `/`")),
        _ => {
            let message = "expected either `test`, or `path` and `body`, beside `graph`";
            Err(Failure::new(Cause::BadRequest, message))
        }
    }
}

enum Made {
    Ready(Arc<Plan>, Case),
    /// The text does not compile, or a model that it needs is not loaded.
    Refused(Response),
}

fn make(
    servables: &Servables,
    beside: Option<&Servable>,
    graph: &str,
    input: Input,
) -> Result<Made, Failure> {
    let mut environment = servables.sharing();
    if let Input::Test(test) = &input {
        environment = test
            .provide(environment)
            .map_err(|why| wrong("test", &format!("cannot be used: {why}")))?;
    }
    let compiled = servables.compile_beside(graph, beside, &environment);
    let Some(plan) = &compiled.plan else {
        return Ok(Made::Refused(authoring::refused(&compiled)));
    };
    let case = match input {
        Input::Test(mut test) => test.cases.remove(0),
        Input::Request { path, body } => {
            let stream = request_stream(plan).ok_or_else(|| {
                wrong("graph", "takes no HTTP request: expected an `input_stream: \"HTTP_REQUEST_PAYLOAD:...\"`, or packets in `test`")
            })?;
            Case::request(stream, &path, &body)
        }
    };
    Ok(Made::Ready(Arc::clone(plan), case))
}

async fn play(
    who: &RequestContext,
    plan: Arc<Plan>,
    case: Case,
    place: OwnedSemaphorePermit,
    observation: Observation,
    share: &Share,
) -> Result<Value, Failure> {
    let (mut outputs, mut listed) = (Kept::default(), None);
    let (done, timeline) = oneshot::channel();
    let bench = Bench::of(Arc::clone(&plan));
    let open = |plan: &Arc<Plan>, sides, recorded| {
        let account = Account {
            recorded,
            ..who.account()
        };
        // The guard around the run ends it at its deadline.
        let (mut session, listing) = who.session(plan, sides, None, account)?;
        listed = Some(listing);
        session.0.keep_timeline(MAX_EVENTS, move |timeline, _| {
            // A session that does not end at once keeps its place.
            drop(place);
            // Fails when nobody waits for it any more.
            let _ = done.send(timeline);
        });
        let mut session = Play::from(session);
        outputs = session.keep(plan.graph_outputs(), MAX_PACKETS)?;
        Ok(session)
    };
    let run = bench.run_in(&case, open);
    let failure = match timeout(MAX_TIME, run).await {
        Ok(outcome) => outcome.failure,
        Err(_) => Some(format!("the run was ended after {} s", MAX_TIME.as_secs())),
    };
    let timeline = timeout(PATIENCE, timeline).await.ok();
    let timeline = timeline.and_then(Result::ok);
    let outputs = outputs.take();
    // Payloads may be large, and this thread serves requests.
    let tell = move || tell(&plan, &outputs, timeline, failure, &observation);
    share.beside(tell, "the outputs could not be written").await
}

fn tell(
    plan: &Plan,
    outputs: &[(String, Packet)],
    timeline: Option<Timeline>,
    failure: Option<String>,
    observation: &Observation,
) -> Value {
    let outputs = outputs.iter();
    let outputs = outputs.map(|(stream, packet)| described(stream, packet, observation));
    let nodes: Vec<String> = plan.node_names().map(str::to_owned).collect();
    let streams: Vec<String> = plan.streams().map(str::to_owned).collect();
    let events = timeline.map(|timeline| trace_events(&timeline, &nodes, &streams));
    let error = failure.map(|mut message| {
        message.truncate(message.trim_end().len());
        observation.redact.text(&mut message);
        json!({ "message": message })
    });
    json!({
        "outputs": outputs.collect::<Vec<_>>(),
        "events": events.unwrap_or_default(),
        "error": error,
    })
}
