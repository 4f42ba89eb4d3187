//! Jinja as Python has it, on minijinja.

mod access;
mod arguments;
mod budget;
mod compile;
mod filters;
mod functions;
mod json;
mod markup;
mod operators;
mod str_methods;
mod text;
mod value;

use std::sync::Arc;

use chrono::NaiveDateTime;
use minijinja::{AutoEscape, Environment, Error};

pub(crate) use self::budget::{Budget, Stopped};
pub(crate) use self::compile::Program;
pub(crate) use self::functions::Raised;
pub(crate) use self::json::{bytes, from_json};
use super::chat_template::TemplateError;

/// Where `strftime_now` reads the local time.
pub type Clock = Arc<dyn Fn() -> NaiveDateTime + Send + Sync>;

/// An environment with what a chat template can use.
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

/// What an error says, without where.
pub(crate) fn message_of(error: &Error) -> String {
    error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned)
}
