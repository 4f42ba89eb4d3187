//! One request for a run of a graph, whatever carries it: a run by itself, or the next part of a
//! sequence.

use std::sync::Arc;

use graphmill_engine::{Packet, Summary, Timestamp, shortened};

use super::{
    Label, Parameters, Sequence, SequenceControl, Sequences, Settings, find_version, packets, wrong,
};
use crate::{
    errors::{Cause, Failure},
    run::{Driver, Inference, RequestContext, Tensors},
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

/// The graph of this name and version, once it is available.
pub(crate) async fn available(
    who: &RequestContext,
    name: &str,
    version: &str,
) -> Result<Ready, Failure> {
    let (name, _) = find_version(|name| who.find(name), name, version)?;
    who.available(&name, who.deadline(None)).await
}

/// Opens a run of a graph.
pub(crate) fn open(
    who: &RequestContext,
    ready: Ready,
    settings: &Settings,
    driver: Driver,
) -> Result<Inference, Failure> {
    let is_stream = driver == Driver::Task;
    who.entry.model(ready.servable.name(), is_stream);
    let (sides, priority) = (&settings.sides, settings.priority);
    let deadline = who.deadline(settings.timeout);
    Inference::open(who, ready, sides, priority, deadline, driver)
}

/// Runs a graph.
pub(crate) async fn run(
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    request: RunRequest,
) -> Result<Outcome, Failure> {
    // Before the answer's end is sent: the next request may follow at once.
    let _settlement = who.settlement();
    if let Some(part) = SequenceControl::read(&request.parameters)? {
        return part_of_sequence(sequences, who, request, &part).await;
    }
    let ready = available(who, &request.graph, &request.version).await?;
    let label = Label::of(&ready.servable);
    check_outputs(&request.outputs, ready.plan().graph_outputs())?;
    let settings = Settings::read(request.parameters, ready.plan())?;
    let time = settings.time.unwrap_or(Timestamp::ZERO);
    let mut inference = open(who, ready, &settings, Driver::Reader)?;
    let packets = packets(inference.plan(), request.inputs, true)?;
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
    sequences: &Arc<Sequences>,
    who: &RequestContext,
    request: RunRequest,
    part: &SequenceControl,
) -> Result<Outcome, Failure> {
    let mut taken = sequences.take(who.owner.clone(), &request.graph, part)?;
    let (mut sequence, settings) = if let Some(sequence) = taken.sequence.take() {
        who.entry.model(&sequence.name, false);
        who.entry.entered();
        (sequence, Settings::of_next(&request.parameters))
    } else {
        let ready = available(who, &request.graph, &request.version).await?;
        let (sequence, settings) = begin(who, ready, request.parameters)?;
        (sequence, Ok(settings))
    };
    let checked = settings.and_then(|settings| {
        check_version(&request.version, &sequence.label)?;
        check_outputs(&request.outputs, sequence.inference.plan().graph_outputs())?;
        let packets = packets(sequence.inference.plan(), request.inputs, true)?;
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
    let fed = feed(&mut sequence, packets, time, part.ends);
    let tensors = who.guard(settings.timeout).wait(fed).await?;
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

/// Opens the run of a sequence, which outlives the request.
fn begin(
    who: &RequestContext,
    ready: Ready,
    parameters: Parameters,
) -> Result<(Sequence, Settings), Failure> {
    let label = Label::of(&ready.servable);
    let name = ready.servable.name().to_owned();
    let settings = Settings::read(parameters, ready.plan())?;
    who.entry.model(&name, false);
    let (sides, priority) = (&settings.sides, settings.priority);
    let inference = Inference::open(who, ready, sides, priority, None, Driver::Task)?;
    let feeder = inference.feeder();
    let sequence = Sequence {
        name,
        label,
        inference,
        feeder,
    };
    Ok((sequence, settings))
}

/// Feeds a sequence, and collects the answer.
async fn feed(
    sequence: &mut Sequence,
    packets: Vec<(String, Packet)>,
    time: Timestamp,
    ends: bool,
) -> Result<Tensors, Failure> {
    sequence.feeder.push(packets, time).await?;
    if ends {
        sequence.feeder.close();
        return sequence.inference.rest().await;
    }
    sequence.inference.collect_of(&sequence.feeder).await
}

fn check_version(asked: &str, of: &Label) -> Result<(), Failure> {
    if ["", "0", &of.version].contains(&asked) {
        return Ok(());
    }
    let why = format!("the sequence is one of the version {}", of.version);
    Err(wrong("model_version".to_owned(), why))
}

/// Refuses outputs that the graph does not have.
fn check_outputs<'a>(
    wanted: &[String],
    outputs: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let names: Vec<&str> = outputs.collect();
    let is_unknown = |name: &String| !names.contains(&name.as_str());
    let Some(position) = wanted.iter().position(is_unknown) else {
        return Ok(());
    };
    let (unknown, names) = (shortened(&wanted[position], 100), names.join("`, `"));
    let why = format!("the graph has no output `{unknown}`; there are `{names}`");
    Err(wrong(format!("outputs[{position}].name"), why))
}

/// Of all tensors those that are wanted, in that order.
fn choose(tensors: Tensors, wanted: &[String]) -> Result<Tensors, Failure> {
    if wanted.is_empty() {
        return Ok(tensors);
    }
    let choose = |name: &String| {
        let found = tensors.iter().find(|(other, _)| other == name);
        found.cloned().ok_or_else(|| {
            let why = format!(
                "the graph's output `{}` has no packet",
                shortened(name, 100)
            );
            Failure::new(Cause::NoAnswer, why)
        })
    };
    wanted.iter().map(choose).collect()
}
