//! Hugging Face chat templates, rendered as Python's jinja2 renders them.
//!
//! The same input gives the same text, byte for byte, and templates fail where they fail in Python.
//! A misread template must not reach a model. The module `jinja` has all that is needed for that.
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

use super::jinja::{self, Budget, Program, TemplateException, TemplateStop, message_of};
pub use super::jinja::{Clock, TemplateError};
use super::tool_calls::CallFormat;

/// A compiled chat template. Rendering takes no lock, so threads can share it.
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    program: Program,
}

/// Maximum number of instructions of one rendering, which take seconds. A message takes some
/// hundred, so every conversation that fits into a context is rendered.
const MAX_STEPS: u64 = 10_000_000;
/// Bytes that every rendering may make, whatever the size of the conversation.
const MIN_BYTES: usize = 64 << 20;
/// Further bytes that a rendering may make for each byte of the conversation. Templates split,
/// strip and join texts a few times.
const BYTES_OF_EACH: usize = 16;

impl ChatTemplate {
    /// Compiles a template. Its `strftime_now` reads the local time.
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

    /// Compiles a template and renders a short conversation with it, and ignores the result. For a
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
            // A template may refuse this conversation and accept others.
            template.render(&variables).ok();
            // A loaded model renders calls to detect their format.
            drop(CallFormat::taught_by(Some(&template)));
        }
    }

    /// Returns the approximate number of bytes of a variable.
    pub(crate) fn input_bytes(variable: &serde_json::Value) -> usize {
        jinja::bytes(variable)
    }

    /// Returns the source of the template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders the template with `variables` (`messages`, `tools`, `add_generation_prompt`, ..).
    pub fn render(&self, variables: &serde_json::Value) -> Result<String, TemplateError> {
        self.render_until(variables, CancelToken::default())
    }

    /// Renders as [`Self::render`] does, and stops when the token is cancelled.
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
        if let Some(TemplateException(message)) = current.downcast_ref() {
            return TemplateError::Raised(message.clone());
        }
        if let Some(why) = current.downcast_ref::<TemplateStop>() {
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
