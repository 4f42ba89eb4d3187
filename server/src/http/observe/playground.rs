//! `POST /v3/playground`: runs a graph once that is not served, with the models of served graphs.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
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

use super::{authoring, graphs::described};
use crate::{
    bodies::Share,
    config::Observation,
    errors::{Cause, Failure, Result},
    http::{
        AppState, HttpResult,
        request::{RequestBody, wrong},
    },
    offline::{
        play::{PacketLog, Play},
        test_file::{Bench, Case, TestFile},
    },
    run::RequestContext,
    servable::{Servable, Servables, request_stream},
    sessions::{MAX_EVENTS, trace_events},
};

/// Time limit for a run.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Maximum number of output packets of a run.
const MAX_PACKETS: usize = 1_000;

/// Time for an aborted session to report its timeline.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct TrialRequest {
    graph: String,
    /// Served graph in whose folder the text would be.
    beside: Option<String>,
    test: Option<String>,
    path: Option<String>,
    body: Option<Value>,
}

pub(super) async fn run(
    State(app): AppState,
    who: RequestContext,
    body: RequestBody,
) -> HttpResult {
    let place = app.runner.sessions.trial()?;
    authoring::check_length("the body", &body.bytes)?;
    let mut asked: TrialRequest = body.fields()?;
    let beside = asked.beside.as_ref();
    let beside = beside.map(|name| app.servables().graph(name)).transpose()?;
    let mut audited = AuditLine {
        who: &who,
        subject: asked.beside.take(),
        outcome: "failed",
        reason: Some("the client left, or the server could not run it"),
    };
    let servables = app.servables();
    let observation = servables.observation().clone();
    // Compiling may take long, and this thread serves requests.
    let work = move || make(&servables, beside.as_deref(), asked);
    let made = body.share.beside(work, "the compilation failed").await;
    let made = made.unwrap_or_else(Err);
    match made.inspect_err(|_| audited.ends("refused"))? {
        Compilation::Refused(response) => {
            audited.ends("refused");
            Ok(response)
        }
        Compilation::Ready(plan, case) => {
            // Before the end of the answer is sent, because the next request may follow at once.
            let _settlement = who.settlement();
            let played = play(&who, plan, case, place, observation, &body.share);
            let told = who.guard(None).wait(played).await?;
            let went_well = told["error"].is_null();
            audited.ends(if went_well { "done" } else { "failed" });
            Ok(Json(told).into_response())
        }
    }
}

/// The line of a run in the audit log, written on drop.
struct AuditLine<'a> {
    who: &'a RequestContext,
    /// Served graph that the run is for, if any.
    subject: Option<String>,
    outcome: &'static str,
    reason: Option<&'static str>,
}

impl AuditLine<'_> {
    fn ends(&mut self, outcome: &'static str) {
        (self.outcome, self.reason) = (outcome, None);
    }
}

impl Drop for AuditLine<'_> {
    fn drop(&mut self) {
        let subject = self.subject.as_deref().unwrap_or("playground");
        self.who.audit("try", subject, self.outcome, self.reason);
    }
}

enum Compilation {
    Ready(Arc<Plan>, Case),
    /// Error answer: the text does not compile, or a model that it needs is not loaded.
    Refused(Response),
}

fn make(
    servables: &Servables,
    beside: Option<&Servable>,
    asked: TrialRequest,
) -> Result<Compilation> {
    let (test, path, body) = match (asked.test, asked.path, asked.body) {
        (Some(test), None, None) => {
            let test = TestFile::parse_case(&test);
            let test = test.map_err(|why| wrong("test", &format!("cannot be read: {why}")))?;
            (Some(test), String::new(), Value::Null)
        }
        (None, Some(path), Some(_)) if !path.starts_with('/') => {
            return Err(wrong("path", "does not begin with `/`"));
        }
        (None, Some(path), Some(body @ Value::Object(_))) => (None, path, body),
        (None, Some(_), Some(_)) => return Err(wrong("body", "is not an object")),
        _ => {
            let message = "expected either `test`, or `path` and `body`, in addition to `graph`";
            return Err(Failure::new(Cause::BadRequest, message));
        }
    };
    let mut environment = servables.sharing();
    if let Some(test) = &test {
        environment = test.provide(environment);
    }
    let compiled = servables.compile_beside(&asked.graph, beside, &environment);
    let Some(plan) = &compiled.plan else {
        return Ok(Compilation::Refused(authoring::refused(&compiled)));
    };
    if let Some(unused) = test.as_ref().and_then(|test| test.unused_model(plan)) {
        return Err(wrong("test", &format!("cannot be used: {unused}")));
    }
    let case = if let Some(mut test) = test {
        test.cases.remove(0)
    } else {
        let stream = request_stream(plan).ok_or_else(|| {
            wrong("graph", "does not accept HTTP requests: expected an `input_stream: \"HTTP_REQUEST_PAYLOAD:...\"`, or packets in `test`")
        })?;
        Case::request(stream, &path, &body)
    };
    Ok(Compilation::Ready(Arc::clone(plan), case))
}

async fn play(
    who: &RequestContext,
    plan: Arc<Plan>,
    case: Case,
    place: OwnedSemaphorePermit,
    observation: Observation,
    share: &Share,
) -> Result<Value> {
    let (mut outputs, mut listed) = (PacketLog::default(), None);
    let (done, timeline) = oneshot::channel();
    let bench = Bench::for_plan(Arc::clone(&plan));
    let open = |plan: &Arc<Plan>, sides, recorded| {
        let account = Account {
            recorded,
            ..who.account()
        };
        // The guard aborts the run at its deadline.
        let (mut session, listing) = who.session(plan, sides, None, account)?;
        listed = Some(listing);
        session.0.keep_timeline(MAX_EVENTS, move |timeline, _| {
            // A session that does not end at once keeps its place.
            drop(place);
            // Fails if the request has ended.
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
    let work = move || describe_run(&plan, &outputs, timeline, failure, &observation);
    share.beside(work, "the outputs could not be written").await
}

fn describe_run(
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
