//! Structural tags in vLLM's form: free text that contains constrained parts, each between texts
//! that mark its beginning and its end.

use graphmill_dialects::{
    bodies::structural_tag::{Format, MAX_FORMAT_BYTES, MAX_TAGS, StructuralTag, Structure, Tag},
    error::at_most,
};
use graphmill_engine::Result;
use serde_json::json;

use super::fields::{code, invalid};
use crate::{
    payload::Constraint,
    text::tool_calls::grammar::{sequence, text},
};

/// Returns the constraint of the tag in a field.
///
/// # Errors
/// The tag cannot be enforced. The error names the place in the field.
pub(super) fn constraint(tag: StructuralTag, field: &str) -> Result<Constraint> {
    match tag {
        StructuralTag {
            format: Some(format),
            structures: None,
            triggers: None,
        } => {
            let field = format!("{field}.format");
            at_most(&field, format.to_string().len(), MAX_FORMAT_BYTES, "bytes")?;
            let read = serde_json::from_value(format);
            let format =
                read.map_err(|error| invalid(&field, format!("is not supported: {error}")))?;
            format_constraint(format, &field)
        }
        StructuralTag {
            structures: Some(structures),
            triggers: Some(triggers),
            format: None,
        } => {
            let parts = structures.into_iter().map(|it| {
                let Structure { begin, schema, end } = it;
                let schema = schema.unwrap_or_else(|| json!({}));
                let end = text(&end.unwrap_or_default());
                let then = sequence([Constraint::JsonSchema(schema), end]);
                (begin, then)
            });
            let places = |index| format!("{field}.structures[{index}].begin");
            triggered(
                triggers,
                parts.collect(),
                places,
                &format!("{field}.triggers"),
            )
        }
        _ => Err(invalid(
            field,
            "needs `structures` and `triggers`, or `format`",
        )),
    }
}

/// Returns the constraint of text in which each trigger begins one of the parts. The beginning of a
/// part identifies it.
fn triggered(
    triggers: Vec<String>,
    parts: Vec<(String, Constraint)>,
    place: impl Fn(usize) -> String,
    field: &str,
) -> Result<Constraint> {
    at_most(field, triggers.len(), MAX_TAGS, "triggers")?;
    at_most(field, parts.len(), MAX_TAGS, "tags")?;
    let mut marked: Vec<(String, Vec<Constraint>)> = Vec::new();
    for (index, trigger) in triggers.into_iter().enumerate() {
        if trigger.is_empty() {
            return Err(invalid(format!("{field}[{index}]"), "must not be empty"));
        }
        if marked
            .iter()
            .any(|(other, _)| other.contains(&trigger) || trigger.contains(other))
        {
            let message = "is part of another trigger, or contains one";
            return Err(invalid(format!("{field}[{index}]"), message));
        }
        marked.push((trigger, Vec::new()));
    }
    for (index, (begin, then)) in parts.into_iter().enumerate() {
        let found = marked.iter_mut().find_map(|(trigger, parts)| {
            let rest = begin.strip_prefix(trigger.as_str())?;
            Some((rest, parts))
        });
        let Some((rest, parts)) = found else {
            return Err(invalid(place(index), "must begin with one of the triggers"));
        };
        parts.push(sequence([text(rest), then]));
    }
    if marked.is_empty() {
        return Err(invalid(field, "must not be an empty array"));
    }
    if let Some(index) = marked.iter().position(|(_, parts)| parts.is_empty()) {
        return Err(invalid(
            format!("{field}[{index}]"),
            "is not the beginning of any tag",
        ));
    }
    let marked = marked.into_iter();
    let marked = marked.map(|(trigger, parts)| (trigger, Constraint::any_of(parts)));
    Ok(Constraint::TextWith(marked.collect()))
}

/// Returns the constraint of a format at a place.
fn format_constraint(format: Format, place: &str) -> Result<Constraint> {
    let all = |elements| each_of(elements, &format!("{place}.elements"), format_constraint);
    let divide = |tags| each_of(tags, &format!("{place}.tags"), divided);
    let whole = |(begin, then): (String, Constraint)| sequence([text(&begin), then]);
    Ok(match format {
        Format::ConstString { value } => text(&value),
        Format::JsonSchema { json_schema } => Constraint::JsonSchema(json_schema),
        Format::Regex { pattern } => Constraint::Regex(pattern),
        Format::Grammar { grammar } => Constraint::Gbnf(grammar),
        Format::AnyText => Constraint::Regex("(?s:.*)".to_owned()),
        Format::Sequence { elements } => sequence(all(elements)?),
        Format::Or { elements } => Constraint::AnyOf(all(elements)?),
        Format::Tag(tag) => whole(divided(tag, place)?),
        Format::TriggeredTags {
            at_least_one,
            stop_after_first,
            ..
        } if at_least_one || stop_after_first => {
            let message = "cannot count the tags of free text: leave `at_least_one` and `stop_after_first` out, or use `tags_with_separator`";
            return Err(invalid(place, message).with_code(code::UNSUPPORTED));
        }
        Format::TriggeredTags { triggers, tags, .. } => {
            let begin = |index| format!("{place}.tags[{index}].begin");
            return triggered(triggers, divide(tags)?, begin, &format!("{place}.triggers"));
        }
        Format::TagsWithSeparator {
            tags,
            separator,
            at_least_one,
            stop_after_first,
        } => {
            let each = Constraint::any_of(divide(tags)?.into_iter().map(whole));
            let some = if stop_after_first {
                each
            } else {
                Constraint::Repeated {
                    each: Box::new(each),
                    separator: Box::new(text(&separator)),
                }
            };
            if at_least_one {
                some
            } else {
                Constraint::Optional(Box::new(some))
            }
        }
    })
}

/// Reads each entry of a list at a place.
fn each_of<T, C>(list: Vec<T>, place: &str, read: fn(T, &str) -> Result<C>) -> Result<Vec<C>> {
    let entries = list.into_iter().enumerate();
    let read = entries.map(|(index, entry)| read(entry, &format!("{place}[{index}]")));
    read.collect()
}

/// Divides a tag into the text with which it begins and the constraint of the rest.
fn divided(tag: Tag, place: &str) -> Result<(String, Constraint)> {
    let Tag {
        begin,
        content,
        end,
    } = tag;
    let then = match *content {
        Format::AnyText if !end.is_empty() => Constraint::text_up_to(&end),
        content => sequence([
            format_constraint(content, &format!("{place}.content"))?,
            text(&end),
        ]),
    };
    Ok((begin, then))
}
