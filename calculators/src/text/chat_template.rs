//! Hugging Face chat templates, rendered as Python's jinja2 renders them.
//!
//! The same input gives the same text, byte for byte, and what fails there fails here: a template
//! that would be misread must not reach a model. The module `jinja` has what that takes.
//!
//! ```
//! use graphmill_calculators::text::chat_template::ChatTemplate;
//!
//! let template = ChatTemplate::new("{% for m in messages %}<{{ m.role }}>{{ m['content'].strip() }}{% endfor %}")?;
//! let text = template.render(&serde_json::json!({"messages": [{"role": "user", "content": " Hi "}]}))?;
//! assert_eq!(text, "<user>Hi");
//! # Ok::<(), graphmill_calculators::text::chat_template::TemplateError>(())
//! ```

use std::sync::Arc;

use graphmill_engine::CancelToken;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind};

use super::jinja::{self, Budget, Program, Raised, Stopped, message_of};
pub use super::jinja::{Clock, TemplateError};
use super::tool_calls::Format;

/// A compiled chat template. Rendering needs no lock; share it freely.
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    program: Program,
}

/// Most instructions of one rendering, which are seconds. A message takes some hundred, so that
/// what fits in any context is rendered.
const MAX_STEPS: u64 = 10_000_000;
/// Most bytes that one rendering makes of a small conversation.
const MIN_BYTES: usize = 64 << 20;
/// And of each byte of a large one: templates split, strip and join what was said a few times.
const BYTES_OF_EACH: usize = 16;

impl ChatTemplate {
    /// Compiles a template; `strftime_now` tells the local time.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        Self::with_clock(source, Arc::new(|| chrono::Local::now().naive_local()))
    }

    /// Compiles a template whose `strftime_now` reads `clock`.
    pub fn with_clock(source: &str, clock: Clock) -> Result<Self, TemplateError> {
        let program = Program::new(source)?;
        let mut environment = jinja::environment(clock);
        environment.set_fuel(Some(MAX_STEPS));
        Ok(Self {
            source: source.to_owned(),
            environment,
            program,
        })
    }

    /// Compiles a template and renders a short conversation with it, whatever comes of that: for a
    /// process that tries a model.
    pub fn attempt(source: &str) {
        let messages = serde_json::json!([
            { "role": "user", "content": "Hi" },
            { "role": "assistant", "content": "Hello" },
            { "role": "user", "content": "Bye" },
        ]);
        if let Ok(template) = Self::new(source) {
            let variables =
                serde_json::json!({ "messages": messages, "add_generation_prompt": true });
            // A template may refuse this conversation and take others.
            template.render(&variables).ok();
            // A model that is loaded renders calls to know them.
            drop(Format::taught_by(Some(&template)));
        }
    }

    /// About as many bytes as a variable has.
    pub(crate) fn input_bytes(variable: &serde_json::Value) -> usize {
        jinja::bytes(variable)
    }

    /// The template as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders the template with `variables` (`messages`, `tools`, `add_generation_prompt`, ..).
    pub fn render(&self, variables: &serde_json::Value) -> Result<String, TemplateError> {
        self.render_until(variables, CancelToken::default())
    }

    /// As [`Self::render`], and gives up when the token is cancelled.
    pub fn render_until(
        &self,
        variables: &serde_json::Value,
        cancel: CancelToken,
    ) -> Result<String, TemplateError> {
        let bytes = jinja::bytes(variables);
        let variables = Value::from(Serde(variables));
        let _budget = Budget::new(MIN_BYTES + BYTES_OF_EACH * bytes, cancel);
        self.program
            .run(&self.environment, variables)
            .map_err(|error| render_error(&error))
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").finish_non_exhaustive()
    }
}

fn render_error(error: &Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut innermost = error;
    let mut stopped = (error.kind() == ErrorKind::OutOfFuel)
        .then(|| format!("it takes more than {MAX_STEPS} steps"));
    while let Some(current) = cause {
        if let Some(Raised(message)) = current.downcast_ref() {
            return TemplateError::Raised(message.clone());
        }
        if let Some(why) = current.downcast_ref::<Stopped>() {
            stopped = Some(why.to_string());
        }
        innermost = current.downcast_ref().unwrap_or(innermost);
        cause = current.source();
    }
    let line = innermost.line().or(error.line()).unwrap_or(1);
    match stopped {
        Some(message) => TemplateError::Stopped { line, message },
        None => TemplateError::Render {
            line,
            message: message_of(innermost),
        },
    }
}
