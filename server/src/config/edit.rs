//! Edits of a `config.json` that leave the rest of its text unchanged.

use std::{
    collections::HashMap,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
};

use graphmill_engine::read_text;
use graphmill_grammar::Diagnostic;
use serde_json::{Value, json, value::RawValue};

use super::schema::Object;
use crate::{
    config,
    replace::{parent_folder, replace},
};

/// List that graphs are added to, as in OpenVINO Model Server.
const LIST: &str = "model_config_list";
/// Lists that graphs are removed from.
const LISTS: [&str; 2] = [LIST, "mediapipe_config_list"];

/// Text of a configuration without graphs.
const EMPTY: &str = "{\n  \"model_config_list\": []\n}\n";

/// Adds the graph in `folder` to a configuration file.
pub(crate) fn add(file: &Path, name: &str, folder: &Path) -> Result<(), String> {
    if !folder.is_dir() {
        return Err(format!("`{}` is not a folder", folder.display()));
    }
    let base = relative(folder, file)?;
    change(file, |text| added(text, name, &base))
}

/// Removes the graph of this name from a configuration file.
pub(crate) fn remove(file: &Path, name: &str) -> Result<(), String> {
    change(file, |text| removed(text, name))
}

/// Lets a configuration file serve only these versions of a graph.
pub(crate) fn serve_versions(file: &Path, name: &str, versions: &[u64]) -> Result<(), String> {
    change(file, |text| {
        let lists = Lists::parse(text)?;
        let entry = lists
            .find(name)
            .ok_or_else(|| format!("it has no graph `{name}`"))?;
        let wrong = |error: serde_json::Error| error.to_string();
        let mut value: Value = serde_json::from_str(&text[entry.place.clone()]).map_err(wrong)?;
        let graph = if value.get("config").is_some() {
            &mut value["config"]
        } else {
            &mut value
        };
        graph["model_version_policy"] = json!({ "specific": { "versions": versions } });
        Ok(spliced(text, entry.place.clone(), &value.to_string()))
    })
}

/// Changes a configuration file atomically: a concurrent reader gets the old one or the new one.
fn change(file: &Path, change: impl FnOnce(&str) -> Result<String, String>) -> Result<(), String> {
    let shown = file.display();
    let text = match read_text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => EMPTY.to_owned(),
        Err(error) => return Err(format!("cannot read `{shown}`: {error}")),
    };
    let changed = change(&text).map_err(|why| format!("`{shown}`: {why}"))?;
    let mut found = config::parse(file, &changed).diagnostics.into_iter();
    if let Some(wrong) = found.find(Diagnostic::is_error) {
        return Err(format!("`{shown}`: {}", wrong.message));
    }
    // A symbolic link stays, as its target is replaced.
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_owned());
    replace(file, changed.as_bytes(), 0o666)
        .map_err(|error| format!("cannot write `{shown}`: {error}"))
}

/// Returns the text with another graph.
fn added(text: &str, name: &str, base: &str) -> Result<String, String> {
    let lists = Lists::parse(text)?;
    if lists.find(name).is_some() {
        return Err(format!("it already has a graph `{name}`"));
    }
    let graph = json!({ "name": name, "base_path": base });
    let usual = lists.0.iter().find(|list| list.key == LIST);
    // If the usual list is missing, the file's other list of graphs is used.
    let list = usual.or(lists.0.first());
    let entry = match list {
        Some(list) if list.key != LIST => graph,
        _ => json!({ "config": graph }),
    };
    let Some(list) = list else {
        let start = text.find('{').map_or(0, |at| at + 1);
        let is_only = text[start..].trim_start().starts_with('}');
        let comma = if is_only { "\n" } else { "," };
        let list = format!("\n  \"{LIST}\": [\n    {entry}\n  ]{comma}");
        return Ok(spliced(text, start..start, &list));
    };
    Ok(match list.entries.last() {
        Some(final_entry) => {
            // On its own line, indented like the entry before it.
            let Range { start, end } = final_entry.place;
            let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
            let before = &text[line..start];
            let between = if before.trim().is_empty() {
                format!("\n{before}")
            } else {
                " ".to_owned()
            };
            spliced(text, end..end, &format!(",{between}{entry}"))
        }
        None => spliced(text, list.place.clone(), &format!("[\n    {entry}\n  ]")),
    })
}

/// Returns the text without the graph of this name.
fn removed(text: &str, name: &str) -> Result<String, String> {
    let lists = Lists::parse(text)?;
    for list in &lists.0 {
        let is_it = |entry: &ListEntry| entry.name.as_deref() == Some(name);
        let Some(index) = list.entries.iter().position(is_it) else {
            continue;
        };
        let place = &list.entries[index].place;
        // Includes the comma that separates it from a neighbor.
        let range = match (index.checked_sub(1), list.entries.get(index + 1)) {
            (Some(before), _) => list.entries[before].place.end..place.end,
            (None, Some(after)) => place.start..after.place.start,
            (None, None) => return Ok(spliced(text, list.place.clone(), "[]")),
        };
        return Ok(spliced(text, range, ""));
    }
    Err(format!("it has no graph `{name}`"))
}

/// Returns the path of a folder as a configuration names it: relative if it is inside the
/// configuration's folder.
fn relative(folder: &Path, config: &Path) -> Result<String, String> {
    let whole = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("cannot find `{}`: {error}", path.display()))
    };
    let home = whole(parent_folder(config))?;
    let folder = whole(folder)?;
    let path = match folder.strip_prefix(&home) {
        Ok(inside) if inside == Path::new("") => PathBuf::from("."),
        Ok(inside) => inside.to_owned(),
        Err(_) => folder,
    };
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the path `{}` is not UTF-8", path.display()))
}

fn spliced(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

/// Lists of graphs in a configuration, with their positions in its text.
struct Lists(Vec<GraphList>);

/// One of the lists, by its key.
struct GraphList {
    key: &'static str,
    place: Range<usize>,
    entries: Vec<ListEntry>,
}

/// An entry of a list, with the name of its graph.
struct ListEntry {
    name: Option<String>,
    place: Range<usize>,
}

impl Lists {
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Result<Object<HashMap<String, &RawValue>>, _> = serde_json::from_str(text);
        let Object(fields) =
            fields.map_err(|error| format!("it is not a configuration: {error}"))?;
        let place = |raw: &RawValue| {
            let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
            start..start + raw.get().len()
        };
        let mut lists = Vec::new();
        for key in LISTS {
            let Some(raw) = fields.get(key) else {
                continue;
            };
            let entries: Vec<&RawValue> =
                serde_json::from_str(raw.get()).map_err(|_| format!("`{key}` is not a list"))?;
            let entries = entries.into_iter().map(|raw| ListEntry {
                name: name_of(raw),
                place: place(raw),
            });
            lists.push(GraphList {
                key,
                place: place(raw),
                entries: entries.collect(),
            });
        }
        Ok(Self(lists))
    }

    /// Returns the entry of the graph with this name.
    fn find(&self, name: &str) -> Option<&ListEntry> {
        let mut entries = self.0.iter().flat_map(|list| &list.entries);
        entries.find(|entry| entry.name.as_deref() == Some(name))
    }
}

fn name_of(raw: &RawValue) -> Option<String> {
    let entry: Value = serde_json::from_str(raw.get()).ok()?;
    let graph = entry.get("config").unwrap_or(&entry);
    Some(graph.get("name")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_and_removed_leaves_the_rest_as_it_was() {
        let text = "{\n\t\"model_config_list\":  [ ],\n\t\"mediapipe_config_list\": [\n\t\t{ \"name\":\"a\" },\n\t\t{\"name\": \"b\"}\n\t]\n}";
        let with = added(text, "c", "x").expect("added");
        assert!(
            with.contains(
                "[\n    {\"config\":{\"name\":\"c\",\"base_path\":\"x\"}}\n  ],\n\t\"med"
            ),
            "{with}"
        );
        let more = added(&with, "d", "y").expect("added");
        assert!(
            more.contains("\"x\"}},\n    {\"config\":{\"name\":\"d\""),
            "{more}"
        );
        assert_eq!(removed(&more, "d").expect("removed"), with);
        let without = removed(text, "a").expect("removed");
        assert_eq!(without, text.replace("{ \"name\":\"a\" },\n\t\t", ""));
        assert_eq!(
            removed(text, "b").expect("removed"),
            text.replace(",\n\t\t{\"name\": \"b\"}", "")
        );
        let alone = "{\"mediapipe_config_list\": [{\"name\": \"a\"}]}";
        let with = added(alone, "b", "x").expect("added");
        assert!(
            with.ends_with("}, {\"name\":\"b\",\"base_path\":\"x\"}]}"),
            "{with}"
        );
        assert_eq!(removed(&with, "b").expect("removed"), alone);
        assert!(removed(text, "e").expect_err("not there").contains("`e`"));
        assert!(
            added(text, "a", "x")
                .expect_err("there")
                .contains("already")
        );
    }

    #[test]
    fn a_list_that_is_missing_is_made() {
        for text in ["{}", "{ \"subgraph_list\": [] }", EMPTY] {
            let with = added(text, "a", ".").expect("added");
            let value: Value = serde_json::from_str(&with).expect(&with);
            assert_eq!(value[LIST][0]["config"]["name"], "a", "{with}");
        }
        assert!(added("[]", "a", ".").is_err() && added("{", "a", ".").is_err());
    }
}
