//! A message as serde sees it: a map from field names to their values.

use std::collections::HashMap;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::Context;
use super::error::{Error, Problem};
use super::input::Input;
use crate::ast::{Field, Message, NameKind};
use crate::graph::table;
use crate::span::Span;

/// A message that is read as a struct, a map, or whatever a type makes of it.
pub(super) struct Body<'t, 'c> {
    cx: &'c Context,
    message: &'t Message,
    /// What diagnostics call it.
    name: &'c str,
    /// Where they point to.
    head: Span,
}

impl<'t, 'c> Body<'t, 'c> {
    pub(super) fn new(cx: &'c Context, message: &'t Message, name: &'c str, head: Span) -> Self {
        Self {
            cx,
            message,
            name,
            head,
        }
    }

    /// The fields by name, in order of first appearance, without those that were set aside.
    fn groups(&self) -> Vec<Vec<&'t Field>> {
        let mut groups: Vec<Vec<&Field>> = Vec::new();
        let mut places = HashMap::new();
        for field in self
            .message
            .fields
            .iter()
            .filter(|field| !self.cx.is_aside(&field.value))
        {
            let place = *places.entry(&field.name.kind).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(field);
        }
        groups
    }

    /// Reports fields that are not among the names, once.
    fn report_unknown(&self, known: &[&str]) {
        for field in self
            .message
            .fields
            .iter()
            .filter(|field| !self.cx.is_aside(&field.value))
        {
            if !known.contains(&field.name.as_plain().unwrap_or_default()) {
                let diagnostic = table::unknown(field, self.name, known.iter().copied());
                self.cx.set_aside(&field.value, Some(diagnostic));
            }
        }
    }

    /// Names a field whose absence may be the consequence of something that was reported.
    fn excuses(&self, missing: &str) -> bool {
        self.message.incomplete
            || self.message.fields.iter().any(|field| {
                self.cx.is_aside(&field.value)
                    && (field.name.as_plain() == Some(missing)
                        || crate::suggest::nearest(field.name.as_str(), [missing]).is_some())
            })
    }

    fn visit_fields<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        let access = Fields {
            cx: self.cx,
            groups: self.groups().into_iter(),
            current: Vec::new(),
        };
        visitor.visit_map(access).map_err(|mut error| {
            if let (Problem::Missing { field }, None) = (&error.problem, error.culprit) {
                if self.excuses(field) {
                    error.problem = Problem::Reported;
                } else if error.place.is_none() {
                    error.place = Some(self.head);
                    let problem = std::mem::replace(&mut error.problem, Problem::Reported);
                    error.problem = problem
                        .diagnose(self.name, self.head, None)
                        .map_or(Problem::Reported, |diagnostic| {
                            Problem::Diagnosed(Box::new(diagnostic))
                        });
                }
            }
            error
        })
    }
}

impl<'t> serde::Deserializer<'t> for Body<'t, '_> {
    type Error = Error<'t>;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        self.visit_fields(visitor)
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.report_unknown(fields);
        self.visit_fields(visitor)
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        self.report_unknown(&[]);
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq tuple tuple_struct map
        enum identifier
    }
}

/// Gives the fields to a visitor, all occurrences of one name together.
struct Fields<'t, 'c> {
    cx: &'c Context,
    groups: std::vec::IntoIter<Vec<&'t Field>>,
    current: Vec<&'t Field>,
}

impl<'t> MapAccess<'t> for Fields<'t, '_> {
    type Error = Error<'t>;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error<'t>> {
        let Some(group) = self.groups.next() else {
            return Ok(None);
        };
        let field = group[0];
        self.current = group;
        let key = match &field.name.kind {
            NameKind::Plain(name) => {
                seed.deserialize(BorrowedStrDeserializer::<Error<'t>>::new(name))
            }
            NameKind::Extension(_) | NameKind::Any { .. } => {
                seed.deserialize(StringDeserializer::<Error<'t>>::new(field.name.to_string()))
            }
        };
        key.map(Some)
            .map_err(|error| error.within(field, &field.value))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error<'t>> {
        let group = std::mem::take(&mut self.current);
        let Some(&last) = group.last() else {
            return Err(Problem::Reported.into());
        };
        seed.deserialize(Input::fields(self.cx, group))
            .map_err(|error| error.within(last, &last.value))
    }
}

/// The entries of a protobuf map: messages of a `key` and a `value` each, where the last one of a key counts.
pub(super) struct Entries<'t, 'c> {
    pub(super) cx: &'c Context,
    pub(super) pairs: std::vec::IntoIter<(&'t Field, &'t Field)>,
    pub(super) value: Option<&'t Field>,
}

impl<'t> MapAccess<'t> for Entries<'t, '_> {
    type Error = Error<'t>;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error<'t>> {
        let Some((key, value)) = self.pairs.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let key_read = seed.deserialize(Input::fields(self.cx, vec![key]));
        key_read
            .map(Some)
            .map_err(|error| error.within(key, &key.value))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error<'t>> {
        let Some(value) = self.value.take() else {
            return Err(Problem::Reported.into());
        };
        seed.deserialize(Input::fields(self.cx, vec![value]))
            .map_err(|error| error.within(value, &value.value))
    }
}

/// What a message is where a map is read.
pub(super) enum Entry<'t> {
    /// An entry: its key and its value.
    Of(&'t Field, &'t Field),
    /// An entry of which a part was reported and set aside.
    Aside,
    /// No entry but the map itself, whose keys are the names of the fields.
    Map,
}

/// Takes a message of `key` and `value` for an entry; one that lacks a part or has one twice is an error, lest it be
/// taken for a map with the key `key` or `value`.
pub(super) fn map_entry<'t>(cx: &Context, message: &'t Message) -> Result<Entry<'t>, Problem> {
    let is_part = |field: &Field| matches!(field.name.as_plain(), Some("key" | "value"));
    if message.fields.is_empty() || !message.fields.iter().all(is_part) {
        return Ok(Entry::Map);
    }
    let one = |name| {
        let mut parts = message.fields_named(name);
        let part = parts.next().ok_or(Problem::Missing { field: name })?;
        match parts.next() {
            Some(second) => {
                let diagnostic = table::duplicate(second, part.name.span);
                Err(Problem::Diagnosed(Box::new(diagnostic)))
            }
            None => Ok(part),
        }
    };
    let (key, value) = (one("key")?, one("value")?);
    if cx.is_aside(&key.value) || cx.is_aside(&value.value) {
        return Ok(Entry::Aside);
    }
    Ok(Entry::Of(key, value))
}
