//! Whether a run here is what was recorded.

use serde_json::{Map, Value, json};

const FIELDS: [&str; 7] = [
    "create",
    "observe_error",
    "start_run",
    "outputs",
    "outputs_by_action",
    "action_results",
    "final",
];

/// How `found` differs from what is wanted of the case, if it does. Of several recorded results any
/// one will do.
pub(crate) fn difference(case: &Value, found: &Value) -> Option<String> {
    let observed = &case["observed"];
    if observed.get("crash_or_hang").is_some() {
        // Whatever happens here is better, as long as it is no panic.
        return None;
    }
    if let Some(here) = case.get("here") {
        // A deliberate difference.
        return between(here, found);
    }
    let difference = between(observed, found)?;
    let mut others = Vec::new();
    if observed["deterministic"] == false {
        results(case, &mut others);
    }
    let other = others.iter().any(|other| between(other, found).is_none());
    (!other).then_some(difference)
}

/// All that looks like the result of a run, wherever it stands.
fn results<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("create") {
                found.push(value);
            }
            fields.values().for_each(|field| results(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| results(item, found)),
        _ => {}
    }
}

fn between(wanted: &Value, found: &Value) -> Option<String> {
    let by_step = wanted.get("outputs_by_action").is_some();
    // When nobody waits between the actions, it is left to chance which of them notices an error
    // first.
    let racy = !by_step && wanted["final"].is_object();
    FIELDS
        .into_iter()
        .filter(|field| !(racy && *field == "action_results"))
        .find_map(|field| {
            let (want, have) = (plain(&wanted[field]), plain(&found[field]));
            let same = if want.is_null() || have.is_null() {
                is_nothing(&want) && is_nothing(&have)
            } else {
                same(&want, &have)
            };
            (!same).then(|| {
                format!(
                    "{field}\n  recorded {}\n  here     {}",
                    wanted[field], found[field]
                )
            })
        })
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Without what is ours to choose: the text of errors and the widths and signs of integers.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) if fields.contains_key("error") => json!({"error": true}),
        Value::Object(fields) => {
            let mut plained: Map<String, Value> = fields
                .iter()
                .map(|(name, field)| (name.clone(), plain(field)))
                .collect();
            if plained.get("type") == Some(&json!("uint")) {
                plained.insert("type".to_owned(), json!("int"));
            }
            plained.into()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            // Some types have no way to be shown there.
            let opaque = wanted.get("type").is_some_and(|kind| kind == "other");
            wanted.len() == found.len()
                && wanted.iter().all(|(name, wanted)| {
                    found
                        .get(name)
                        .is_some_and(|found| opaque && name != "ts" || same(wanted, found))
                })
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted
                    .iter()
                    .zip(found)
                    .all(|(wanted, found)| same(wanted, found))
        }
        // Floats are narrower there.
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (
                a.as_f64().unwrap_or(f64::NAN),
                b.as_f64().unwrap_or(f64::NAN),
            );
            (a - b).abs() <= 1e-6 * a.abs().max(1.0)
        }
        (wanted, found) => wanted == found,
    }
}
