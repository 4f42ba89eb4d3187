//! Constraints in requests: what the text has to match, of the fields of
//! [`Output`](graphmill_dialects::bodies::output::Output).

use std::borrow::Cow;

use graphmill_dialects::{
    bodies::output::{Output, ResponseFormat, StructuredOutputs},
    json::{Allowance, INVALID_JSON},
};
use graphmill_engine::Result;
use serde_json::Value;

use super::fields::{code, invalid, written};
use crate::payload::{Constraint, TextConstraint};

/// What the text has to match, of one field at most. `own` is what a field of the dialect's own says.
pub(super) fn constraint(
    own: Option<TextConstraint>,
    output: Output,
    allowance: &Allowance,
) -> Result<Option<TextConstraint>> {
    let mut found = Found {
        constraint: own,
        allowance,
    };
    match output.response_format {
        None | Some(ResponseFormat::Text) => {}
        Some(ResponseFormat::JsonObject { schema: None }) => {
            found.add(of("response_format", Constraint::JsonObject))?;
        }
        Some(ResponseFormat::JsonObject { schema }) => {
            found.schema("response_format.schema", schema)?;
        }
        Some(ResponseFormat::JsonSchema { json_schema }) => {
            let field = "response_format.json_schema.schema";
            found.schema(field, Some(json_schema.schema))?;
        }
    }
    found.schema("guided_json", output.guided_json)?;
    found.map("guided_regex", output.guided_regex, Constraint::Regex)?;
    found.map("guided_choice", output.guided_choice, Constraint::Choice)?;
    found.map("guided_grammar", output.guided_grammar, grammar)?;
    found.map("grammar", output.grammar, grammar)?;
    found.schema("json_schema", output.json_schema)?;
    if let Some(StructuredOutputs {
        json,
        regex,
        choice,
        grammar: rules,
        json_object,
        ..
    }) = output.structured_outputs
    {
        let says = [
            json.is_some(),
            regex.is_some(),
            choice.is_some(),
            rules.is_some(),
            json_object,
        ];
        if !says.contains(&true) {
            return Err(invalid("structured_outputs", "says nothing to match"));
        }
        let object = json_object.then_some(());
        found.schema("structured_outputs.json", json)?;
        found.map("structured_outputs.regex", regex, Constraint::Regex)?;
        found.map("structured_outputs.choice", choice, Constraint::Choice)?;
        found.map("structured_outputs.grammar", rules, grammar)?;
        found.map("structured_outputs.json_object", object, |()| {
            Constraint::JsonObject
        })?;
    }
    Ok(found.constraint)
}

/// The constraint so far.
struct Found<'a> {
    constraint: Option<TextConstraint>,
    allowance: &'a Allowance,
}

impl Found<'_> {
    /// Adds a constraint, unless there is one.
    fn add(&mut self, constraint: TextConstraint) -> Result<()> {
        if let Some(other) = &self.constraint {
            let message = format!("cannot be used together with `{}`", other.field);
            return Err(invalid(&*constraint.field, message));
        }
        self.constraint = Some(constraint);
        Ok(())
    }

    fn map<T>(
        &mut self,
        field: &'static str,
        value: Option<T>,
        constraint: impl Fn(T) -> Constraint,
    ) -> Result<()> {
        value.map_or(Ok(()), |value| self.add(of(field, constraint(value))))
    }

    /// Adds a schema.
    fn schema(&mut self, field: &'static str, schema: Option<Value>) -> Result<()> {
        match schema {
            None => Ok(()),
            Some(given) => self.add(self::schema(field, given, self.allowance)?),
        }
    }
}

/// A schema to match, which is a value or a string of JSON.
pub(super) fn schema(
    field: &'static str,
    schema: Value,
    allowance: &Allowance,
) -> Result<TextConstraint> {
    let schema = match schema {
        Value::String(text) => match allowance.parse(text.as_bytes(), field) {
            Ok(schema @ Value::Object(_)) => schema,
            Ok(other) => {
                let message = format!("must be a JSON object, not {}", written(&other));
                return Err(invalid(field, message));
            }
            Err(error) if error.code.as_deref() == Some(INVALID_JSON) => {
                return Err(error.with_code(code::VALUE));
            }
            Err(error) => return Err(error),
        },
        schema => schema,
    };
    Ok(of(field, Constraint::JsonSchema(schema)))
}

/// What a field says.
pub(super) fn of(field: &'static str, constraint: Constraint) -> TextConstraint {
    TextConstraint {
        field: Cow::Borrowed(field),
        constraint,
        compiled: None,
    }
}

/// GBNF, or Lark: only the one defines rules with `::=`.
fn grammar(grammar: String) -> Constraint {
    if grammar.contains("::=") {
        Constraint::Gbnf(grammar)
    } else {
        Constraint::Lark(grammar)
    }
}
