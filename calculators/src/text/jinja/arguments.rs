//! Arguments of a call, bound to parameter names the way Python binds them.

use minijinja::Error;
use minijinja::value::{Kwargs, Value};

use super::value::{Type, as_int, error};

/// The positional and keyword arguments of one call.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Value>,
    pub(super) keyword: Vec<(String, Value)>,
}

impl Arguments {
    /// Splits off the keyword arguments, which minijinja passes as a last value of their own.
    pub(super) fn new(mut values: Vec<Value>) -> Self {
        let mut keyword = Vec::new();
        if values.last().is_some_and(Value::is_kwargs)
            && let Some(Ok(kwargs)) = values.pop().map(Kwargs::try_from)
        {
            for name in kwargs.args() {
                keyword.push((
                    name.to_owned(),
                    kwargs.peek::<Value>(name).unwrap_or_default(),
                ));
            }
        }
        Self {
            positional: values,
            keyword,
        }
    }

    /// The arguments as minijinja passes them.
    pub(super) fn into_values(self) -> Vec<Value> {
        let mut values = self.positional;
        if !self.keyword.is_empty() {
            values.push(Value::from(self.keyword.into_iter().collect::<Kwargs>()));
        }
        values
    }

    /// Gives each parameter its argument. Too many, unknown or doubled arguments are an error.
    pub(super) fn bind<const N: usize>(
        self,
        function: &str,
        names: [&str; N],
    ) -> Result<[Option<Value>; N], Error> {
        if self.positional.len() > N {
            return Err(error(format!(
                "{function}() takes at most {N} arguments ({} given)",
                self.positional.len()
            )));
        }
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.keyword {
            let index = names
                .iter()
                .position(|other| *other == name)
                .ok_or_else(|| {
                    error(format!(
                        "{function}() got an unexpected keyword argument '{name}'"
                    ))
                })?;
            if bound[index].replace(value).is_some() {
                return Err(error(format!(
                    "{function}() got multiple values for argument '{name}'"
                )));
            }
        }
        Ok(bound)
    }
}

pub(super) fn required(function: &str, name: &str, value: Option<Value>) -> Result<Value, Error> {
    value.ok_or_else(|| error(format!("{function}() missing required argument: '{name}'")))
}

/// A text argument; `None` where it is absent or Python's `None`.
pub(super) fn text_or_none(function: &str, value: Option<&Value>) -> Result<Option<String>, Error> {
    match value {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => text(function, value).map(Some),
    }
}

pub(super) fn text(function: &str, value: &Value) -> Result<String, Error> {
    value.as_str().map(str::to_owned).ok_or_else(|| {
        error(format!(
            "{function}() argument must be str, not {}",
            Type::of(value).name()
        ))
    })
}

/// An integer argument; `None` where it is absent or Python's `None`.
pub(super) fn int_or_none(function: &str, value: Option<&Value>) -> Result<Option<i64>, Error> {
    match value {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => as_int(value)
            .and_then(|int| i64::try_from(int).ok())
            .map(Some)
            .ok_or_else(|| {
                error(format!(
                    "{function}() argument must be int, not {}",
                    Type::of(value).name()
                ))
            }),
    }
}

/// A flag, false where absent.
pub(super) fn flag(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_true)
}
