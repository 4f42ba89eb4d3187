//! The table of filters.

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, State};

use super::super::python::budget;
use super::super::python::call::Arguments;
use super::functions::bounded;
use super::{numbers, sequences, strings};

/// A filter: its name (for messages), the value it is applied to and its arguments.
type Filter = fn(&mut State<'_, '_>, &'static str, &Value, Arguments) -> Result<Value, Error>;

const FILTERS: &[(&str, Filter)] = &[
    ("abs", numbers::abs),
    ("attr", sequences::attr),
    ("batch", sequences::batch),
    ("capitalize", strings::capitalize),
    ("center", strings::method),
    ("count", sequences::length),
    ("d", sequences::default),
    ("default", sequences::default),
    ("dictsort", sequences::dictsort),
    ("e", strings::escape),
    ("escape", strings::escape),
    ("first", sequences::first),
    ("float", numbers::float),
    ("forceescape", strings::escape),
    ("format", strings::format),
    ("from_json", strings::from_json),
    ("groupby", sequences::groupby),
    ("indent", strings::indent),
    ("int", numbers::int),
    ("items", sequences::items_of),
    ("join", sequences::join),
    ("last", sequences::last),
    ("length", sequences::length),
    ("list", sequences::list),
    ("lower", strings::lower),
    ("map", sequences::map),
    ("max", sequences::extreme),
    ("min", sequences::extreme),
    ("pprint", strings::pprint),
    ("reject", sequences::select),
    ("rejectattr", sequences::select),
    ("replace", strings::replace),
    ("reverse", sequences::reverse),
    ("round", numbers::round),
    ("safe", strings::safe),
    ("select", sequences::select),
    ("selectattr", sequences::select),
    ("slice", sequences::slices),
    ("sort", sequences::sort),
    ("string", strings::string),
    ("sum", sequences::sum),
    ("title", strings::title),
    ("tojson", strings::tojson),
    ("trim", strings::trim),
    ("truncate", strings::truncate),
    ("unique", sequences::unique),
    ("upper", strings::upper),
    ("urlencode", strings::urlencode),
    ("wordcount", strings::wordcount),
];

pub(super) fn install(environment: &mut Environment<'static>) {
    for &(name, filter) in FILTERS {
        environment.add_filter(
            name,
            move |state: &mut State<'_, '_>, value: Value, rest: Rest<ValueOrKwargs>| {
                budget::search(&value);
                bounded(|| filter(state, name, &value, Arguments::new(rest.into_values())))
            },
        );
    }
}
