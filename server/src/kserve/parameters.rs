//! The parameters of a request: settings of the protocol, what it is of a sequence, and side
//! packets of the graph.

use std::{collections::BTreeMap, fmt, time::Duration};

use graphmill_calculators::tensor::batch::Batcher;
use graphmill_engine::{Plan, SidePackets, Timestamp, shortened};
use graphmill_grammar::suggest;

use super::{
    SHOWN_BYTES,
    proto::{InferParameter, infer_parameter::ParameterChoice},
    wrong,
};
use crate::{
    errors::{Cause, Failure},
    run::TIMESTAMP,
};

/// Asks for outputs behind the JSON; only REST has it.
pub(crate) const BINARY_OUTPUT: &str = "binary_data_output";

/// Asks a stream to say when a request has all of its answers.
pub(crate) const FINAL_RESPONSE: &str = "triton_enable_empty_final_response";

/// Tells what a client of `MLServer` made a tensor of, or makes of one. It changes no tensor.
pub(super) const CONTENT_TYPE: &str = "content_type";

/// The content types whose tensors are what their datatypes say.
const CONTENT_TYPES: [&str; 2] = ["np", "str"];

/// Names the priority level of a request, 1 for the first.
pub(super) const PRIORITY: &str = "priority";

/// Time for the answer, in microseconds.
pub(super) const TIMEOUT: &str = "timeout";

/// The parameters that say what of a sequence a request is.
pub(super) const ID: &str = "sequence_id";
pub(super) const START: &str = "sequence_start";
const END: &str = "sequence_end";

/// Maximum length of the id of a sequence in bytes: longer ones are no ids, and each is kept.
const MAX_ID_BYTES: usize = 128;

/// The parameters of a request, by name.
pub(crate) type Parameters = BTreeMap<String, InferParameter>;

/// The name of a parameter in messages.
pub(super) fn field(name: &str) -> String {
    format!("parameters.{}", shortened(name, SHOWN_BYTES))
}

/// Reads the value of a parameter.
fn value<'a>(name: &str, parameter: &'a InferParameter) -> Result<&'a ParameterChoice, Failure> {
    let value = parameter.parameter_choice.as_ref();
    value.ok_or_else(|| wrong(field(name), "it has no value"))
}

/// Returns true if a parameter is `true`.
pub(crate) fn is_set(parameters: &Parameters, name: &str) -> bool {
    let asked = parameters.get(name);
    asked.is_some_and(|it| it.parameter_choice == Some(ParameterChoice::BoolParam(true)))
}

pub(super) fn check_content_type(field: String, value: &InferParameter) -> Result<(), Failure> {
    match &value.parameter_choice {
        Some(ParameterChoice::StringParam(kind)) if CONTENT_TYPES.contains(&kind.as_str()) => {
            Ok(())
        }
        _ => Err(wrong(
            field,
            "it is `np` or `str`: no tensor is decoded before the graph takes it",
        )),
    }
}

fn boolean(name: &str, value: &ParameterChoice) -> Result<bool, Failure> {
    match value {
        ParameterChoice::BoolParam(value) => Ok(*value),
        _ => Err(wrong(field(name), "it is true or false")),
    }
}

/// Reads a whole number of some type. `why` says what it has to be.
fn number<T: TryFrom<i64> + TryFrom<u64>>(
    name: &str,
    value: &ParameterChoice,
    why: &str,
) -> Result<T, Failure> {
    let number = match value {
        ParameterChoice::Int64Param(value) => T::try_from(*value).ok(),
        ParameterChoice::Uint64Param(value) => T::try_from(*value).ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(field(name), why))
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
    /// Whether a stream says when the request has all of its answers.
    pub(crate) says_final: bool,
}

impl Settings {
    /// Reads the parameters of a request that begins a run of a graph.
    pub(crate) fn read(parameters: &Parameters, plan: &Plan) -> Result<Self, Failure> {
        let mut settings = Self::default();
        for (name, parameter) in parameters {
            let value = value(name, parameter)?;
            if settings.set(name, value)? {
                continue;
            }
            match plan.side_types(name) {
                Some(_) => {}
                None if name == CONTENT_TYPE => {
                    check_content_type(field(name), parameter)?;
                    continue;
                }
                None => return Err(unknown(name, plan)),
            }
            let (sides, name) = (std::mem::take(&mut settings.sides), name.as_str());
            settings.sides = match value {
                ParameterChoice::BoolParam(value) => sides.with(name, *value),
                ParameterChoice::Int64Param(value) => sides.with(name, *value),
                ParameterChoice::Uint64Param(value) => sides.with(name, *value),
                ParameterChoice::DoubleParam(value) => sides.with(name, *value),
                ParameterChoice::StringParam(value) => sides.with(name, value.clone()),
            };
        }
        if settings.priority > 0 {
            check_priority(settings.priority, plan)?;
        }
        Ok(settings)
    }

    /// Reads those of a request that goes on with a run: side packets are those of the first.
    pub(crate) fn read_next(parameters: &Parameters) -> Result<Self, Failure> {
        let mut settings = Self::default();
        for (name, parameter) in parameters {
            if !settings.set(name, value(name, parameter)?)? {
                let why = "side packets are those of the request that began the run";
                return Err(wrong(field(name), why));
            }
        }
        if settings.priority > 0 {
            let why = "a run has the priority of its first request";
            return Err(wrong(field(PRIORITY), why));
        }
        Ok(settings)
    }

    /// Takes a setting; false if the name is unknown.
    fn set(&mut self, name: &str, value: &ParameterChoice) -> Result<bool, Failure> {
        match name {
            TIMESTAMP => {
                let time = number(name, value, "it is a whole number of 64 bits")?;
                let at = Timestamp::new(time);
                if at.value() != time {
                    let why = format_args!("{time} is no timestamp of a packet");
                    return Err(wrong(field(name), why));
                }
                self.time = Some(at);
            }
            TIMEOUT => {
                let micros = number(name, value, "it is a whole number of microseconds")?;
                // Triton's clients say so that there is none.
                self.timeout = (micros > 0).then(|| Duration::from_micros(micros));
            }
            BINARY_OUTPUT => _ = boolean(name, value)?,
            FINAL_RESPONSE => self.says_final = boolean(name, value)?,
            ID | START | END => {}
            PRIORITY => {
                let why = "it is the number of a priority level, or 0";
                self.priority = number(name, value, why)?;
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
    Err(wrong(field(PRIORITY), why))
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
    Failure::new(Cause::BadRequest, message).of_field(field(name))
}

/// The name of a sequence among those of a key and a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Number(u64),
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "`{text}`"),
        }
    }
}

/// The part that a request is of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SequenceControl {
    pub(super) id: Id,
    /// True for the first one.
    pub(crate) starts: bool,
    /// True for the last one.
    pub(crate) ends: bool,
}

impl SequenceControl {
    /// Reads the parameters; none where the request is of no sequence, which clients write as
    /// the id 0 or an empty one, too.
    pub(crate) fn read(parameters: &Parameters) -> Result<Option<Self>, Failure> {
        let find = |name: &str| {
            let parameter = parameters.get(name);
            parameter.map(|it| value(name, it)).transpose()
        };
        let flag = |name: &str| find(name)?.map_or(Ok(false), |value| boolean(name, value));
        let (starts, ends) = (flag(START)?, flag(END)?);
        let id = match find(ID)? {
            None => None,
            Some(ParameterChoice::StringParam(text)) if text.len() > MAX_ID_BYTES => {
                let why = format_args!("it has at most {MAX_ID_BYTES} bytes");
                return Err(wrong(field(ID), why));
            }
            Some(ParameterChoice::StringParam(text)) => {
                (!text.is_empty()).then(|| Id::Text(text.clone()))
            }
            Some(value) => {
                let number = number(ID, value, "it is a text, or a whole number of at least 0")?;
                (number > 0).then_some(Id::Number(number))
            }
        };
        match id {
            Some(id) => Ok(Some(Self { id, starts, ends })),
            None if starts || ends => {
                let name = if starts { START } else { END };
                Err(wrong(field(name), "there is no `sequence_id`"))
            }
            None => Ok(None),
        }
    }
}
