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

    /// Returns the number of bytes of all texts.
    pub(super) fn text_len(&self) -> usize {
        let keyword = self.keyword.iter().map(|(_, value)| value);
        let texts = self.positional.iter().chain(keyword);
        texts.filter_map(Value::as_str).map(str::len).sum()
    }

    /// Assigns arguments to parameters. Those after the first `required` may have none. Too many,
    /// unknown or repeated arguments are an error.
    pub(super) fn bind<const N: usize>(
        self,
        function: &str,
        required: usize,
        names: [&str; N],
    ) -> Result<[Option<Value>; N], Error> {
        if self.positional.len() > N {
            return Err(error(format!(
                "{function}() takes at most {N} arguments ({} given)",
                self.positional.len()
            )));
        }
        let mut bound = std::array::from_fn(|_| None);
        let positional = names.iter().map(|name| (*name).to_owned());
        for (name, value) in positional.zip(self.positional).chain(self.keyword) {
            let place = names.iter().position(|other| *other == name);
            let refused = |what| error(format!("{function}() got {what} argument '{name}'"));
            let place = place.ok_or_else(|| refused("an unexpected keyword"))?;
            if bound[place].replace(value).is_some() {
                return Err(refused("multiple values for"));
            }
        }
        let missing = bound.iter().take(required).position(Option::is_none);
        missing.map_or(Ok(bound), |place| {
            let name = names[place];
            Err(error(format!(
                "{function}() missing required argument: '{name}'"
            )))
        })
    }
}

/// Returns a text argument.
pub(super) fn text(function: &str, value: Option<Value>) -> Result<String, Error> {
    let value = value.unwrap_or_default();
    let found = Type::from_value(&value);
    let wrong = || error(format!("{function}() argument must be str, not {found}"));
    value.as_str().map(str::to_owned).ok_or_else(wrong)
}

/// Returns a text argument; `None` if it is absent or Python's `None`.
pub(super) fn text_or_none(function: &str, value: Option<Value>) -> Result<Option<String>, Error> {
    let given = value.filter(|value| !value.is_none());
    given.map(|value| text(function, Some(value))).transpose()
}

/// Returns an integer argument; `None` if it is absent or Python's `None`.
pub(super) fn int_or_none(function: &str, value: Option<Value>) -> Result<Option<i64>, Error> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    let int = as_int(&value).and_then(|int| i64::try_from(int).ok());
    let found = Type::from_value(&value);
    let wrong = || error(format!("{function}() argument must be int, not {found}"));
    int.map(Some).ok_or_else(wrong)
}
