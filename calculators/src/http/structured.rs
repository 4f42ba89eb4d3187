//! Constraints of requests, from the fields of
//! [`Output`](graphmill_dialects::bodies::output::Output).

use std::borrow::Cow;

use graphmill_dialects::{
    bodies::output::{Output, ResponseFormat},
    json::{Allowance, INVALID_JSON},
};
use graphmill_engine::Result;
use serde_json::Value;

use super::{
    fields::{code, conflicting, invalid, written},
    structural_tag,
};
use crate::payload::{
    Constraint::{self, Choice, Gbnf, JsonObject, JsonSchema, Lark, Regex},
    TextConstraint,
};

/// Reads the constraint of the text, which at most one field may set. `own` is that of the
/// dialect's own field.
pub(super) fn constraint(
    own: Option<TextConstraint>,
    output: Output,
    allowance: &Allowance,
) -> Result<Option<TextConstraint>> {
    let format = match output.response_format {
        None | Some(ResponseFormat::Text) => None,
        Some(ResponseFormat::JsonObject { schema: None }) => Some(("response_format", JsonObject)),
        Some(ResponseFormat::JsonObject {
            schema: Some(schema),
        }) => Some(("response_format.schema", JsonSchema(schema))),
        Some(ResponseFormat::StructuralTag(tag)) => {
            let constraint = structural_tag::constraint(tag, "response_format")?;
            Some(("response_format", constraint))
        }
        Some(ResponseFormat::JsonSchema { json_schema }) => {
            let field = "response_format.json_schema.schema";
            Some((field, JsonSchema(json_schema.schema)))
        }
    };
    let guided = [
        ("guided_json", output.guided_json.map(JsonSchema)),
        ("guided_regex", output.guided_regex.map(Regex)),
        ("guided_choice", output.guided_choice.map(Choice)),
        ("guided_grammar", output.guided_grammar.map(grammar)),
        ("grammar", output.grammar.map(grammar)),
        ("json_schema", output.json_schema.map(JsonSchema)),
    ];
    let has_outputs = output.structured_outputs.is_some();
    let outputs = output.structured_outputs.unwrap_or_default();
    let json_object = outputs.json_object.then_some(JsonObject);
    let tagged = outputs.structural_tag.map(|tag| tagged(tag, allowance));
    let outputs = [
        ("structured_outputs.json", outputs.json.map(JsonSchema)),
        ("structured_outputs.regex", outputs.regex.map(Regex)),
        ("structured_outputs.choice", outputs.choice.map(Choice)),
        ("structured_outputs.grammar", outputs.grammar.map(grammar)),
        ("structured_outputs.json_object", json_object),
        (TAGGED, tagged.transpose()?),
    ];
    if has_outputs && outputs.iter().all(|(_, it)| it.is_none()) {
        return Err(invalid("structured_outputs", "sets no constraint"));
    }
    let others = guided.into_iter().chain(outputs);
    let others = others.filter_map(|(field, it)| Some((field, it?)));
    let mut found = own;
    for (field, constraint) in format.into_iter().chain(others) {
        let constraint = match constraint {
            JsonSchema(given) => schema(field, given, allowance)?,
            constraint => asked_by(field, constraint),
        };
        if let Some(other) = &found {
            return Err(conflicting(field, &other.field));
        }
        found = Some(constraint);
    }
    Ok(found)
}

/// Path of vLLM's field with a structural tag.
const TAGGED: &str = "structured_outputs.structural_tag";

/// Reads a structural tag, which is a value or a string of JSON.
fn tagged(tag: Value, allowance: &Allowance) -> Result<Constraint> {
    let tag = match tag {
        Value::String(text) => allowance.parse(text.as_bytes(), TAGGED)?,
        tag => tag,
    };
    let read = serde_json::from_value(tag);
    let tag = read.map_err(|error| invalid(TAGGED, format!("is not a structural tag: {error}")))?;
    structural_tag::constraint(tag, TAGGED)
}

/// Reads a schema to match, which is a value or a string of JSON.
pub(super) fn schema(
    field: &'static str,
    schema: Value,
    allowance: &Allowance,
) -> Result<TextConstraint> {
    let Value::String(text) = schema else {
        return Ok(asked_by(field, JsonSchema(schema)));
    };
    match allowance.parse(text.as_bytes(), field) {
        Ok(schema @ Value::Object(_)) => Ok(asked_by(field, JsonSchema(schema))),
        Ok(other) => {
            let message = format!("must be a JSON object, not {}", written(&other));
            Err(invalid(field, message))
        }
        Err(error) if error.code.as_deref() == Some(INVALID_JSON) => {
            Err(error.with_code(code::VALUE))
        }
        Err(error) => Err(error),
    }
}

/// Returns the constraint of a field.
pub(super) fn asked_by(field: &'static str, constraint: Constraint) -> TextConstraint {
    TextConstraint {
        field: Cow::Borrowed(field),
        constraint,
        compiled: None,
    }
}

/// Reads a grammar in GBNF or in Lark. Only GBNF defines rules with `::=`.
fn grammar(grammar: String) -> Constraint {
    if grammar.contains("::=") {
        Gbnf(grammar)
    } else {
        Lark(grammar)
    }
}
