//! A limit on how deep values are nested.
//!
//! Values get deeper where an expression puts one into another, at most by as many levels as the
//! expression has tokens. More would take a variable that goes from one expression to the next, so
//! what a variable holds is limited.

use std::sync::LazyLock;

use minijinja::value::{DynObject, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Levels of what a variable holds. JSON of requests has 128 at most.
const MAX_NESTING: usize = 200;

/// Callback for each value that is visited, with the number of its items.
type Visit<'a> = &'a dyn Fn(usize) -> Result<(), Error>;

/// Checks what a variable of a scope is to hold.
pub(crate) fn held(value: &Value, visit: Visit<'_>) -> Result<(), Error> {
    look(value, 0, true, visit)
}

/// Checks what outlives a scope, as attributes of namespaces do: data, and no objects that can hold
/// something themselves. Those could hold one another in a chain without end, or in a ring.
pub(crate) fn data(value: &Value, visit: Visit<'_>) -> Result<(), Error> {
    look(value, 0, false, visit)
}

fn look(value: &Value, level: usize, objects: bool, visit: Visit<'_>) -> Result<(), Error> {
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    visit(value.len().unwrap_or(0))?;
    check_level(level)?;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = value.try_iter()?;
            items.try_for_each(|item| look(&item, level + 1, objects, visit))
        }
        ValueKind::Map if is_dict(object) => {
            let mut entries = object.try_iter_pairs().into_iter().flatten();
            entries.try_for_each(|(key, value)| {
                look(&key, level + 1, objects, visit)?;
                look(&value, level + 1, objects, visit)
            })
        }
        _ if objects => Ok(()),
        _ => Err(refused(
            "namespaces, cyclers and bound methods hold data only: not one another, macros or loops",
        )),
    }
}

/// Refuses what has too many levels around it.
pub(crate) fn check_level(level: usize) -> Result<(), Error> {
    if level < MAX_NESTING {
        return Ok(());
    }
    Err(refused(&format!(
        "a value is nested more than {MAX_NESTING} levels deep"
    )))
}

/// Returns true if an object is a plain dict; minijinja has others that look like one.
pub(crate) fn is_dict(object: &DynObject) -> bool {
    static PLAIN: LazyLock<Option<&'static str>> = LazyLock::new(|| {
        let dict = Value::from_pairs([("", "")]);
        dict.as_object().map(DynObject::type_name)
    });
    Some(object.type_name()) == *PLAIN
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}
