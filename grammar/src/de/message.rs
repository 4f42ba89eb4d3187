//! A message as serde sees it: a map from field names to their values.

use std::collections::HashMap;

use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::Context;
use super::error::{Error, Problem};
use super::input::Input;
use crate::ast::{Field, Message, NameKind};
use crate::graph::table;
use crate::span::Span;

/// A message to read as a struct, a map or another type.
#[derive(Clone, Copy)]
pub(super) struct Body<'t, 'c> {
    cx: &'c Context,
    message: &'t Message,
    /// Name of the message in diagnostics.
    name: &'c str,
    /// Location of the message in diagnostics.
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

    /// Groups the fields by name, in order of first appearance, except those that were set aside.
    fn groups(&self) -> Vec<Vec<&'t Field>> {
        let mut groups: Vec<Vec<&Field>> = Vec::new();
        let mut places = HashMap::new();
        for field in self.fields() {
            let place = *places.entry(&field.name.kind).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(field);
        }
        groups
    }

    /// Iterates over the fields, except those that were set aside.
    fn fields(&self) -> impl Iterator<Item = &'t Field> {
        let fields = self.message.fields.iter();
        fields.filter(|field| !self.cx.is_aside(&field.value))
    }

    /// Reports each field that is not among the known names, once.
    fn report_unknown(&self, known: &[&str]) {
        for field in self.fields() {
            if !known.contains(&field.name.as_plain().unwrap_or_default()) {
                let diagnostic = table::unknown(field, self.name, known.iter().copied());
                self.cx.set_aside(&field.value, Some(diagnostic));
            }
        }
    }

    /// Returns `true` if a reported mistake may explain that a field is missing.
    fn excuses(&self, missing: &str) -> bool {
        self.message.incomplete
            || self.message.fields.iter().any(|field| {
                self.cx.is_aside(&field.value)
                    && (field.name.as_plain() == Some(missing)
                        || crate::suggest::nearest(field.name.as_str(), [missing]).is_some())
            })
    }

    /// Passes the wanted fields to a visitor.
    fn visit_fields<V: Visitor<'t>>(
        self,
        wanted: impl Fn(&Field) -> bool,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        let groups = self.groups().into_iter().filter(|group| wanted(group[0]));
        let entries = groups.map(|group| (EntryKey::Name(group[0]), group));
        let entries = entries.collect();
        visitor
            .visit_map(Entries::new(self.cx, entries))
            .map_err(|mut error| {
                if let (Problem::Missing(field), None) = (&error.problem, error.culprit) {
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
        self.visit_fields(|_| true, visitor)
    }

    /// Reads the structs of a tuple. Each takes the fields that it has.
    fn deserialize_tuple<V: Visitor<'t>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        let mut known = Vec::new();
        let read = visitor.visit_seq(TupleParts {
            body: self,
            known: &mut known,
        })?;
        self.report_unknown(&known);
        Ok(read)
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.report_unknown(fields);
        self.visit_fields(|_| true, visitor)
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
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq tuple_struct map
        enum identifier
    }
}

/// The structs of a tuple that is read from one message.
struct TupleParts<'t, 'c, 'k> {
    body: Body<'t, 'c>,
    /// Fields of the structs that were read.
    known: &'k mut Vec<&'static str>,
}

impl<'t> SeqAccess<'t> for TupleParts<'t, '_, '_> {
    type Error = Error<'t>;

    fn next_element_seed<S: DeserializeSeed<'t>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error<'t>> {
        seed.deserialize(TuplePart(self)).map(Some)
    }
}

/// One struct of a tuple.
struct TuplePart<'p, 't, 'c, 'k>(&'p mut TupleParts<'t, 'c, 'k>);

impl<'t> serde::Deserializer<'t> for TuplePart<'_, 't, '_, '_> {
    type Error = Error<'t>;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        self.0.body.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.0.known.extend(fields);
        let is_own = |field: &Field| fields.contains(&field.name.as_plain().unwrap_or_default());
        self.0.body.visit_fields(is_own, visitor)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The key of a map entry.
pub(super) enum EntryKey<'t> {
    /// The name of this field.
    Name(&'t Field),
    /// The value of this field.
    Value(&'t Field),
}

/// Passes entries to a visitor: the fields of a message, with all occurrences of a name together,
/// or the entries of a protobuf map, where the last one with a key counts.
pub(super) struct Entries<'t, 'c> {
    cx: &'c Context,
    rest: std::vec::IntoIter<(EntryKey<'t>, Vec<&'t Field>)>,
    current: Vec<&'t Field>,
}

impl<'t, 'c> Entries<'t, 'c> {
    pub(super) fn new(cx: &'c Context, entries: Vec<(EntryKey<'t>, Vec<&'t Field>)>) -> Self {
        Self {
            cx,
            rest: entries.into_iter(),
            current: Vec::new(),
        }
    }
}

impl<'t> MapAccess<'t> for Entries<'t, '_> {
    type Error = Error<'t>;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error<'t>> {
        let Some((key, values)) = self.rest.next() else {
            return Ok(None);
        };
        self.current = values;
        let (EntryKey::Name(field) | EntryKey::Value(field)) = key;
        let read = match (key, &field.name.kind) {
            (EntryKey::Value(_), _) => seed.deserialize(Input::fields(self.cx, vec![field])),
            (EntryKey::Name(_), NameKind::Plain(name)) => {
                seed.deserialize(BorrowedStrDeserializer::<Error<'t>>::new(name))
            }
            (EntryKey::Name(_), NameKind::Extension(_) | NameKind::Any { .. }) => {
                seed.deserialize(StringDeserializer::<Error<'t>>::new(field.name.to_string()))
            }
        };
        read.map(Some)
            .map_err(|error| error.within(field, &field.value))
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(&mut self, seed: V) -> Result<V::Value, Error<'t>> {
        let values = std::mem::take(&mut self.current);
        let Some(&last) = values.last() else {
            return Err(Problem::Reported.into());
        };
        seed.deserialize(Input::fields(self.cx, values))
            .map_err(|error| error.within(last, &last.value))
    }
}

/// The meaning of a message in the place of a map.
pub(super) enum MapEntry<'t> {
    /// An entry of the map: its key and its value.
    Of(&'t Field, &'t Field),
    /// An entry with a part that was reported and set aside.
    Aside,
    /// The map itself, with its field names as keys.
    Map,
}

/// Reads a message of `key` and `value` as an entry. A missing or second `key` or `value` is an
/// error; otherwise the message would be taken for a map with the key `key` or `value`.
pub(super) fn map_entry<'t>(cx: &Context, message: &'t Message) -> Result<MapEntry<'t>, Problem> {
    let is_part = |field: &Field| matches!(field.name.as_plain(), Some("key" | "value"));
    if message.fields.is_empty() || !message.fields.iter().all(is_part) {
        return Ok(MapEntry::Map);
    }
    let one = |name| {
        let mut parts = message.fields_named(name);
        let part = parts.next().ok_or(Problem::Missing(name))?;
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
        return Ok(MapEntry::Aside);
    }
    Ok(MapEntry::Of(key, value))
}
