//! The parameters of a request: settings of the protocol, and side packets of the graph.

use std::time::Duration;

use graphmill_calculators::tensor::batch::Batcher;
use graphmill_engine::{Plan, SidePackets, Timestamp, shortened};
use graphmill_grammar::suggest;
use serde::Deserialize;

use super::{sequence_control, wrong};
use crate::{
    errors::{Cause, Failure},
    run::TIMESTAMP,
};

/// Asks for outputs behind the JSON; only REST has it.
pub(crate) const BINARY_OUTPUT: &str = "binary_data_output";

/// Asks a stream to say when a request has all of its answers.
const FINAL_RESPONSE: &str = "triton_enable_empty_final_response";

/// Names the priority level of a request, 1 for the first.
const PRIORITY: &str = "priority";

/// Tells what a client of `MLServer` made a tensor of, or makes of one. It changes no tensor.
const CONTENT_TYPE: &str = "content_type";

/// The content types whose tensors are what their datatypes say.
const CONTENT_TYPES: [&str; 2] = ["np", "str"];

/// How much of a name an error shows.
const SHOWN_BYTES: usize = 100;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "a parameter that is no boolean, number or string"
)]
pub(crate) enum Parameter {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
}

impl Parameter {
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) => i64::try_from(*value).ok(),
            _ => None,
        }
    }
}

/// The parameters of a request, by name.
pub(crate) type Parameters = Vec<(String, Parameter)>;

/// Checks a parameter of a tensor at this place of a request that nothing reads.
pub(crate) fn check_of_tensor(place: &str, name: &str, value: &Parameter) -> Result<(), Failure> {
    let field = format!("{place}.parameters.{}", shortened(name, SHOWN_BYTES));
    if name == CONTENT_TYPE {
        return check_content_type(field, value);
    }
    if name.starts_with("shared_memory") {
        let why = format!("`{field}`: there is no shared memory");
        return Err(Failure::new(Cause::Unsupported, why).of_field(field));
    }
    Err(wrong(field, "there is no such parameter of a tensor"))
}

fn check_content_type(field: String, value: &Parameter) -> Result<(), Failure> {
    match value {
        Parameter::Text(kind) if CONTENT_TYPES.contains(&kind.as_str()) => Ok(()),
        _ => Err(wrong(
            field,
            "it is `np` or `str`: no tensor is decoded before the graph takes it",
        )),
    }
}

/// What the parameters of a request say.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) sides: SidePackets,
    /// How long the answer may take.
    pub(crate) timeout: Option<Duration>,
    /// The priority level that it names; 0 if it names none.
    pub(crate) priority: u32,
    /// The timestamp of its packets.
    pub(crate) time: Option<Timestamp>,
    pub(crate) binary_output: bool,
    /// Whether a stream says when the request has all of its answers.
    pub(crate) says_final: bool,
}

impl Settings {
    /// Reads the parameters of a request that begins a run of a graph.
    pub(crate) fn read(parameters: Parameters, plan: &Plan) -> Result<Self, Failure> {
        let mut settings = Self::default();
        for (name, value) in parameters {
            if settings.set(&name, &value)? {
                continue;
            }
            match plan.side_types(&name) {
                Some(_) => {}
                None if name == CONTENT_TYPE => {
                    check_content_type(format!("parameters.{name}"), &value)?;
                    continue;
                }
                None => return Err(unknown(&name, plan)),
            }
            let sides = std::mem::take(&mut settings.sides);
            settings.sides = match value {
                Parameter::Bool(value) => sides.with(name, value),
                Parameter::Int(value) => sides.with(name, value),
                Parameter::Uint(value) => sides.with(name, value),
                Parameter::Float(value) => sides.with(name, value),
                Parameter::Text(value) => sides.with(name, value),
            };
        }
        if settings.priority > 0 {
            check_priority(settings.priority, plan)?;
        }
        Ok(settings)
    }

    /// Reads those of a request that goes on with a run: side packets are those of the first.
    pub(crate) fn of_next(parameters: &Parameters) -> Result<Self, Failure> {
        let mut settings = Self::default();
        for (name, value) in parameters {
            if !settings.set(name, value)? {
                let field = format!("parameters.{}", shortened(name, SHOWN_BYTES));
                let why = "side packets are those of the request that began the run";
                return Err(wrong(field, why));
            }
        }
        if settings.priority > 0 {
            let why = "a run has the priority of its first request";
            return Err(wrong(format!("parameters.{PRIORITY}"), why));
        }
        Ok(settings)
    }

    /// Whether the request wants to know when it has all of its answers.
    pub(crate) fn says_final(parameters: &Parameters) -> bool {
        let mut parameters = parameters.iter();
        parameters.any(|(name, value)| name == FINAL_RESPONSE && *value == Parameter::Bool(true))
    }

    /// Takes a setting; false if the name is unknown.
    fn set(&mut self, name: &str, value: &Parameter) -> Result<bool, Failure> {
        let field = || format!("parameters.{name}");
        let as_bool = || match value {
            Parameter::Bool(value) => Ok(*value),
            _ => Err(wrong(field(), "it is true or false")),
        };
        match name {
            TIMESTAMP => {
                let why = "it is a whole number of 64 bits";
                let time = value.integer().ok_or_else(|| wrong(field(), why))?;
                let at = Timestamp::new(time);
                if at.value() != time {
                    let why = format_args!("{time} is no timestamp of a packet");
                    return Err(wrong(field(), why));
                }
                self.time = Some(at);
            }
            "timeout" => {
                let micros = value.integer().and_then(|it| u64::try_from(it).ok());
                let why = "it is a whole number of microseconds";
                let micros = micros.ok_or_else(|| wrong(field(), why))?;
                // Triton's clients say so that there is none.
                self.timeout = (micros > 0).then(|| Duration::from_micros(micros));
            }
            BINARY_OUTPUT => self.binary_output = as_bool()?,
            FINAL_RESPONSE => self.says_final = as_bool()?,
            _ if sequence_control::is_parameter(name) => {}
            PRIORITY => {
                let level = value.integer().and_then(|level| u32::try_from(level).ok());
                let why = "it is the number of a priority level, or 0";
                self.priority = level.ok_or_else(|| wrong(field(), why))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Refuses a level that no node of the graph has.
fn check_priority(priority: u32, plan: &Plan) -> Result<(), Failure> {
    let batchers = plan.resources::<Batcher>();
    let batchings = batchers.iter().map(|batcher| &batcher.info().batching);
    let levels = batchings.filter(|batching| batching.has_priorities());
    let why = match levels.map(|batching| batching.levels.len()).min() {
        None => "no node of the graph has priority levels".to_owned(),
        Some(levels) if priority as usize > levels => {
            format!("it is {priority}, and the graph has the levels 1 to {levels}")
        }
        Some(_) => return Ok(()),
    };
    Err(wrong(format!("parameters.{PRIORITY}"), why))
}

fn unknown(name: &str, plan: &Plan) -> Failure {
    let shown = &*shortened(name, SHOWN_BYTES);
    let sides = &plan.explain().side_inputs;
    // A port as the graph writes it: its name is behind the tag.
    let names = sides.iter();
    let names = names.map(|port| port.rsplit(':').next().unwrap_or(port));
    let near = suggest::nearest(shown, names);
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let message = format!("the graph has no side packet for the parameter `{shown}`{near}");
    Failure::new(Cause::BadRequest, message).of_field(format!("parameters.{shown}"))
}
