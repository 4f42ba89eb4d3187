//! One request for a run of a graph, whatever carries it: a run by itself, or the next part of a
//! sequence.

use graphmill_engine::{Packet, Summary, Timestamp, shortened};

use crate::{
    errors::{Cause, Failure},
    http::state::App,
    kserve::{self, Label, Parameters, Sequence, SequenceControl, Settings, Tensors},
    run::{Driver, RequestContext},
    servable::Ready,
};

/// A request for a run.
pub(crate) struct RunRequest {
    pub(crate) graph: String,
    /// Empty where the request has none.
    pub(crate) version: String,
    pub(crate) parameters: Parameters,
    pub(crate) inputs: Tensors,
    /// The outputs that are wanted; all if empty.
    pub(crate) outputs: Vec<String>,
}

/// Result of a run.
pub(crate) struct Outcome {
    /// Name and version of the graph.
    pub(crate) label: Label,
    /// The outputs that are wanted, in that order.
    pub(crate) tensors: Tensors,
    /// Summary of a session that has ended; `None` within a sequence, which goes on.
    pub(crate) summary: Option<Summary>,
}

/// Runs a graph.
pub(crate) async fn run(
    app: &App,
    who: &RequestContext,
    request: RunRequest,
) -> Result<Outcome, Failure> {
    // Before the answer's end is sent: the next request may follow at once.
    let _settlement = who.settlement();
    if let Some(part) = SequenceControl::read(&request.parameters)? {
        return part_of_sequence(app, who, request, &part).await;
    }
    let ready = who.available(app, &request.graph, &request.version).await?;
    let label = Label::of(&ready.servable);
    check_outputs(&request.outputs, ready.plan().graph_outputs())?;
    let settings = Settings::read(request.parameters, ready.plan())?;
    let time = settings.time.unwrap_or(Timestamp::ZERO);
    let mut inference = who.open(app, ready, settings, Driver::Reader)?;
    let packets = kserve::packets(inference.plan(), request.inputs, true)?;
    let tensors = inference.run(packets, time).await?;
    who.entry.answers();
    Ok(Outcome {
        label,
        tensors: choose(tensors, &request.outputs)?,
        summary: inference.summary().cloned(),
    })
}

/// Goes on with a sequence, or begins it. What is wrong with a request leaves the sequence as it
/// is; what goes wrong in the graph ends it.
async fn part_of_sequence(
    app: &App,
    who: &RequestContext,
    request: RunRequest,
    part: &SequenceControl,
) -> Result<Outcome, Failure> {
    let mut taken = app.sequences.take(who.owner(), &request.graph, part)?;
    let (mut sequence, settings) = if let Some(sequence) = taken.sequence.take() {
        who.goes_on(&sequence.name);
        (sequence, Settings::of_next(&request.parameters))
    } else {
        let (graph, version) = (&request.graph, &request.version);
        let ready = who.available(app, graph, version).await?;
        let (sequence, settings) = begin(app, who, ready, request.parameters)?;
        (sequence, Ok(settings))
    };
    let checked = settings.and_then(|settings| {
        check_version(&request.version, &sequence.label)?;
        check_outputs(&request.outputs, sequence.inference.plan().graph_outputs())?;
        let packets = kserve::packets(sequence.inference.plan(), request.inputs, true)?;
        let time = settings.time;
        let time = time.unwrap_or_else(|| sequence.feeder.next_time(0));
        sequence.feeder.check(&packets, time)?;
        Ok((settings, packets, time))
    });
    let (settings, packets, time) = match checked {
        Ok(checked) => checked,
        Err(failure) => {
            // If this request did not begin the sequence, there is none.
            if !part.starts {
                taken.leave(sequence);
            }
            return Err(failure);
        }
    };
    if part.starts {
        taken.begins();
    }
    let tensors = tokio::select! {
        tensors = fed(&mut sequence, packets, time, part.ends) => tensors?,
        failure = who.expires_within(settings.timeout) => return Err(failure),
    };
    who.entry.answers();
    let label = sequence.label.clone();
    if part.ends || sequence.inference.has_ended() {
        taken.done();
    } else {
        taken.leave(sequence);
    }
    Ok(Outcome {
        label,
        tensors: choose(tensors, &request.outputs)?,
        summary: None,
    })
}

/// Opens the run of a sequence.
fn begin(
    app: &App,
    who: &RequestContext,
    ready: Ready,
    parameters: Parameters,
) -> Result<(Sequence, Settings), Failure> {
    let label = Label::of(&ready.servable);
    let name = ready.servable.name().to_owned();
    let mut settings = Settings::read(parameters, ready.plan())?;
    let sides = std::mem::take(&mut settings.sides);
    let inference = who.open_sequence(app, ready, &sides, settings.priority)?;
    let feeder = inference.feeder();
    let sequence = Sequence {
        name,
        label,
        inference,
        feeder,
    };
    Ok((sequence, settings))
}

/// What a run gives for some packets.
async fn fed(
    sequence: &mut Sequence,
    packets: Vec<(String, Packet)>,
    time: Timestamp,
    ends: bool,
) -> Result<Tensors, Failure> {
    let Sequence {
        inference, feeder, ..
    } = sequence;
    feeder.push(packets, time).await?;
    if ends {
        feeder.close();
        return inference.rest().await;
    }
    inference.collect_of(feeder).await
}

fn check_version(asked: &str, of: &Label) -> Result<(), Failure> {
    if ["", "0", &of.version].contains(&asked) {
        return Ok(());
    }
    let why = format!("the sequence is one of the version {}", of.version);
    Err(kserve::wrong("model_version".to_owned(), why))
}

/// Refuses outputs that the graph does not have.
fn check_outputs<'a>(
    wanted: &[String],
    outputs: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    if wanted.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = outputs.collect();
    let unknown = wanted
        .iter()
        .position(|name| !names.contains(&name.as_str()));
    let Some(position) = unknown else {
        return Ok(());
    };
    let why = format!(
        "the graph has no output `{}`; there are `{}`",
        shortened(&wanted[position], 100),
        names.join("`, `")
    );
    Err(kserve::wrong(format!("outputs[{position}].name"), why))
}

/// Of all tensors those that are wanted, in that order.
fn choose(tensors: Tensors, wanted: &[String]) -> Result<Tensors, Failure> {
    if wanted.is_empty() {
        return Ok(tensors);
    }
    let mut chosen = Tensors::with_capacity(wanted.len());
    for name in wanted {
        let found = tensors.iter().find(|(other, _)| other == name);
        let found = found.ok_or_else(|| {
            let why = format!(
                "the graph's output `{}` has no packet",
                shortened(name, 100)
            );
            Failure::new(Cause::NoAnswer, why)
        })?;
        chosen.push(found.clone());
    }
    Ok(chosen)
}
