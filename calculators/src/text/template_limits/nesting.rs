//! A limit on the depth of nested values.
//!
//! A value gets deeper where an expression puts one into another, by at most as many levels as the
//! expression has tokens. Only a variable can carry a value on to the next expression, so the depth
//! of variables is limited.

use std::sync::LazyLock;

use minijinja::value::{DynObject, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Maximum depth of a variable's value. JSON of requests has at most 128.
const MAX_NESTING: usize = 200;

/// A callback for each value that is visited, with the number of its items.
type Visit<'a> = &'a dyn Fn(usize) -> Result<(), Error>;

/// Checks the new value of a variable of a scope.
pub(crate) fn held(value: &Value, visit: Visit<'_>) -> Result<(), Error> {
    look(value, 0, true, visit)
}

/// Checks a value that outlives a scope, such as an attribute of a namespace. It must be data,
/// without objects that can hold other values. Those could hold one another in an endless chain, or
/// in a ring.
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

/// Refuses a value with too many levels around it.
pub(crate) fn check_level(level: usize) -> Result<(), Error> {
    if level < MAX_NESTING {
        return Ok(());
    }
    Err(refused(&format!(
        "a value is nested more than {MAX_NESTING} levels deep"
    )))
}

/// Returns true if an object is a plain dict. minijinja has other objects that look like one.
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
