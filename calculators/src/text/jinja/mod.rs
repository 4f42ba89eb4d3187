//! Jinja with Python's behavior, on top of minijinja.
//!
//! Chat templates are written for Python's jinja2 as transformers sets it up. minijinja parses,
//! compiles and runs them, and its scopes, loops, macros, white space, fuel and most of its
//! filters, tests and methods are used as they are. Each part of this folder is here for something
//! that it and its `pycompat` lack, and that public templates need:
//!
//! | part | what minijinja and `pycompat` lack |
//! |---|---|
//! | `compile` | A hook for operators, subscripts and loops. A way not to compute constants at compile time. `{% generation %}`. Line ends of Windows |
//! | `operators` | `+` on markup. `%` on text. An error for `1 < "a"`, `1 in "a"` and a loop over `none`. `-true` |
//! | `access` | `dict.items` that is a method before it is a key. Slices of tuples, and an error for slices of `none`. `index` |
//! | `str_methods` | `index`, `partition`, `removeprefix`, `rsplit`. Keyword arguments of `replace` and `split`. Errors of `join` and `split` |
//! | `filters` | `from_json`. Arguments of `tojson`, `default`, `replace`, `indent`. Defaults of `int` and `float`. Generators of `map` and `select`, and false values as their input. An error for `none` |
//! | `functions` | `raise_exception`, `strftime_now`. Ranges with an index. `iterable` and `sequence` |
//! | `text` | Floats such as `1e+16`, characters that cannot be printed |
//! | `json` | `json.dumps`: what minijinja writes is escaped for HTML |
//! | `value` | Generators and views of a dict, which are no lists. Names of types for messages |
//! | `arguments` | Python's binding of positional and keyword arguments |
//! | `budget` | Any limit on memory: fuel counts instructions, and one can double a text. A limit on filters that apply one another |

mod access;
mod arguments;
mod budget;
mod compile;
mod error;
mod filters;
mod functions;
mod json;
mod operators;
mod str_methods;
mod text;
mod value;

use minijinja::{AutoEscape, Environment, Error};

pub(crate) use self::budget::{Budget, TemplateStop};
pub(crate) use self::compile::Program;
pub use self::error::TemplateError;
pub(crate) use self::error::message_of;
pub use self::functions::Clock;
pub(crate) use self::functions::TemplateException;
pub(crate) use self::json::bytes;

/// Creates an environment with the functions, filters and tests of chat templates.
pub(crate) fn environment(clock: Clock) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(access::call_method);
    environment.set_debug(true);
    environment.set_formatter(|out, _, value| {
        let text = text::weighed(value)?;
        budget::take(text.len())?;
        out.write_str(&text).map_err(Error::from)
    });
    operators::install(&mut environment);
    filters::install(&mut environment);
    functions::install(&mut environment, clock);
    environment
}
