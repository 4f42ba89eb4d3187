//! The graph that a request means.

use graphmill_calculators::http::dialect::{Purpose, Target};

use super::{RequestHead, body::ParsedBody};
use crate::{app::state::App, errors::Result};

/// Names that clients of servers with a single model send by default: `huggingface_hub` and
/// `text-generation`.
const NO_NAMES: [&str; 2] = ["dummy", "tgi"];

/// Returns the name of the graph for a request, which is usually the one in the body. A default
/// graph is inserted into the body and returned in these cases: the server allows it, and the name
/// is missing or unknown; the name is one of [`NO_NAMES`]; or the name is missing, and the path or
/// the dialect needs none.
pub(super) fn choose_graph(
    app: &App,
    head: &RequestHead,
    body: &mut ParsedBody,
    needs_no_model: bool,
) -> Result<String> {
    let servables = app.servables();
    let sees = |graph: &str| head.who.sees(graph, None);
    let purpose = head.target.and_then(|target| target.purpose);
    if purpose.is_some_and(Purpose::needs_no_model)
        && !body.json.has("model")
        && let Some(only) = servables.unnamed(sees)
    {
        return Ok(only.name().to_owned());
    }
    let says_none = body.model().is_ok_and(|name| NO_NAMES.contains(&name));
    let is_named = body.json.has("model");
    let may_be_any = |target: &Target| {
        let needs_none = needs_no_model || target.dialect.needs_no_model();
        app.options.any_model || says_none || needs_none && !is_named
    };
    let Some(target) = head.target.filter(may_be_any) else {
        return body.model().map(str::to_owned);
    };
    let is_served = |name: &str| {
        let sees = |graph: &str, adapter: Option<&str>| head.who.sees(graph, adapter);
        servables.find(name, None, sees).is_ok()
    };
    match body.model() {
        Ok(name) if is_served(name) => return Ok(name.to_owned()),
        Err(failure) if failure.code() == Some("invalid_type") => return Err(failure),
        Ok(_) | Err(_) => {}
    }
    let preferred = app.options.default_model.as_deref();
    let graph = servables.default_for(target.dialect.endpoint(), preferred, sees)?;
    body.insert("model", graph.graph().into());
    Ok(graph.graph().to_owned())
}
