//! `ModelInfer`: one run of a graph.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use graphmill_engine::{Timestamp, shortened};

use super::{convert, message, methods::read, proto::ModelInferRequest};
use crate::{
    http::state::App,
    kserve::{self, Label, Settings, Tensors},
    rescue::{Cause, Failure},
};

pub(super) async fn model_infer(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Failure> {
    let (who, asked): (_, ModelInferRequest) = read(&app, request).await?;
    let ready = who
        .available(&app, &asked.model_name, &asked.model_version)
        .await?;
    let label = Label::of(&ready.servable);
    let wanted = convert::wanted(asked.outputs)?;
    check_outputs(&wanted, ready.plan().graph_outputs())?;
    let tensors = convert::tensors(asked.inputs, asked.raw_input_contents)?;
    let settings = Settings::read(convert::parameters(asked.parameters)?, ready.plan())?;
    let time = settings.time.unwrap_or(Timestamp::ZERO);
    let mut inference = who.open(&app, ready, settings, false)?;
    let packets = kserve::packets(inference.plan(), tensors, true)?;
    // Before the answer's end is sent: the next request may follow at once.
    let _settlement = who.settlement();
    let mut feeder = inference.feeder();
    feeder.push(packets, time).await?;
    feeder.close();
    let tensors = choose(inference.collect().await?, &wanted)?;
    let answer = convert::answer(&label, asked.id, tensors);
    Ok(message::reply(&answer))
}

/// Refuses outputs that the graph does not have.
pub(super) fn check_outputs<'a>(
    wanted: &[String],
    outputs: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
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
