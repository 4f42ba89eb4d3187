//! Arguments of a call, bound to parameter names the way Python binds them.

use std::sync::Arc;

use minijinja::Error;
use minijinja::value::{Kwargs, Object, ObjectRepr, Value};

use super::value::{Type, as_int, error};

/// The positional and keyword arguments of one call.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Value>,
    pub(super) keyword: Vec<(String, Value)>,
}

impl Arguments {
    /// Splits off the keyword arguments, which minijinja passes as a last value of their own.
    pub(super) fn new(mut positional: Vec<Value>) -> Self {
        let mut keyword = Vec::new();
        if positional.last().is_some_and(Value::is_kwargs)
            && let Some(Ok(kwargs)) = positional.pop().map(Kwargs::try_from)
        {
            let value = |name: &str| kwargs.peek::<Value>(name).unwrap_or_default();
            keyword.extend(kwargs.args().map(|name| (name.to_owned(), value(name))));
        }
        Self {
            positional,
            keyword,
        }
    }

    /// Returns the arguments in minijinja's form.
    pub(super) fn into_values(self) -> Vec<Value> {
        let mut values = self.positional;
        if !self.keyword.is_empty() {
            values.push(Value::from(self.keyword.into_iter().collect::<Kwargs>()));
        }
        values
    }

    /// Takes the first positional argument.
    pub(super) fn next(&mut self) -> Option<Value> {
        (!self.positional.is_empty()).then(|| self.positional.remove(0))
    }

    /// Assigns arguments to parameters. Those after the first `required` may have none. Too many,
    /// unknown or repeated arguments are an error.
    pub(super) fn bind<const N: usize>(
        self,
        function: &str,
        required: usize,
        names: [&str; N],
    ) -> Result<[Value; N], Error> {
        if self.positional.len() > N {
            return Err(error(format!(
                "{function}() takes at most {N} arguments ({} given)",
                self.positional.len()
            )));
        }
        let mut bound = std::array::from_fn(|_| Value::from_object(Absent));
        let mut given = [false; N];
        let positional = names.iter().map(|name| (*name).to_owned());
        for (name, value) in positional.zip(self.positional).chain(self.keyword) {
            let place = names.iter().position(|other| *other == name);
            let refused = |what| error(format!("{function}() got {what} argument '{name}'"));
            let place = place.ok_or_else(|| refused("an unexpected keyword"))?;
            if std::mem::replace(&mut given[place], true) {
                return Err(refused("multiple values for"));
            }
            bound[place] = value;
        }
        let missing = given.iter().take(required).position(|given| !given);
        missing.map_or(Ok(bound), |place| {
            let name = names[place];
            Err(error(format!(
                "{function}() missing required argument: '{name}'"
            )))
        })
    }
}

/// The value of a parameter without an argument. An undefined value is an argument.
#[derive(Debug)]
struct Absent;

impl Object for Absent {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }
}

/// Returns true if a parameter has an argument.
pub(super) fn is_given(value: &Value) -> bool {
    value.downcast_object_ref::<Absent>().is_none()
}

/// Returns the argument, or the default if it is not given.
pub(super) fn or(value: Value, default: impl Into<Value>) -> Value {
    if is_given(&value) {
        return value;
    }
    default.into()
}

/// Returns a text argument; `None` if it is absent or Python's `None`.
pub(super) fn text_or_none(function: &str, value: &Value) -> Result<Option<String>, Error> {
    if !is_given(value) || value.is_none() {
        return Ok(None);
    }
    text(function, value).map(Some)
}

pub(super) fn text(function: &str, value: &Value) -> Result<String, Error> {
    let found = Type::from_value(value);
    let wrong = || error(format!("{function}() argument must be str, not {found}"));
    value.as_str().map(str::to_owned).ok_or_else(wrong)
}

/// Returns an integer argument; `None` if it is absent or Python's `None`.
pub(super) fn int_or_none(function: &str, value: &Value) -> Result<Option<i64>, Error> {
    if !is_given(value) || value.is_none() {
        return Ok(None);
    }
    let int = as_int(value).and_then(|int| i64::try_from(int).ok());
    let found = Type::from_value(value);
    let wrong = || error(format!("{function}() argument must be int, not {found}"));
    int.map(Some).ok_or_else(wrong)
}

/// Returns a size, which must not be negative, or the default.
pub(super) fn size_or(function: &str, value: &Value, default: usize) -> Result<usize, Error> {
    let size = int_or_none(function, value)?;
    Ok(size.map_or(default, |size| usize::try_from(size).unwrap_or(0)))
}
