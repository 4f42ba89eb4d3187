//! Parameters of a request: settings of the protocol, the control of sequences, and side packets of
//! the graph.

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
    errors::{Cause, Failure, Result},
    run::TIMESTAMP,
};

/// Parameter that requests outputs in binary form, only over REST.
pub(crate) const BINARY_OUTPUT: &str = "binary_data_output";

/// Parameter that requests a message after the last answer of a stream's request.
pub(crate) const FINAL_RESPONSE: &str = "triton_enable_empty_final_response";

/// Parameter of clients of `MLServer` that describes the source of a tensor. It does not change the
/// tensor.
pub(super) const CONTENT_TYPE: &str = "content_type";

/// Content types that match the datatype of their tensor.
const CONTENT_TYPES: [&str; 2] = ["np", "str"];

/// Parameter with the priority level of a request; 1 is the highest.
pub(super) const PRIORITY: &str = "priority";

/// Parameter with the time limit of the answer, in microseconds.
pub(super) const TIMEOUT: &str = "timeout";

/// Parameters that control a sequence.
pub(super) const ID: &str = "sequence_id";
pub(super) const START: &str = "sequence_start";
const END: &str = "sequence_end";

/// Maximum length of a sequence id in bytes, as each id is stored.
const MAX_ID_BYTES: usize = 128;

/// Parameters of a request by name.
pub(crate) type ParameterMap = BTreeMap<String, InferParameter>;

/// Returns the name of a parameter for messages.
pub(super) fn field(name: &str) -> String {
    format!("parameters.{}", shortened(name, SHOWN_BYTES))
}

/// Returns the value of a parameter.
fn value<'a>(name: &str, parameter: &'a InferParameter) -> Result<&'a ParameterChoice> {
    let value = parameter.parameter_choice.as_ref();
    value.ok_or_else(|| wrong(field(name), "it has no value"))
}

/// Returns true if a parameter is `true`.
pub(crate) fn is_set(parameters: &ParameterMap, name: &str) -> bool {
    let asked = parameters.get(name);
    asked.is_some_and(|it| it.parameter_choice == Some(ParameterChoice::BoolParam(true)))
}

/// Removes the parameter of a tensor that is a number of `what`.
pub(crate) fn take_count(
    parameters: &mut ParameterMap,
    place: &str,
    name: &str,
    what: &str,
) -> Result<Option<usize>> {
    let count = parameters.remove(name).map(|given| {
        let count = match given.parameter_choice {
            Some(ParameterChoice::Int64Param(count)) => usize::try_from(count).ok(),
            _ => None,
        };
        let why = format_args!("expected a number of {what}");
        count.ok_or_else(|| wrong(format!("{place}.parameters.{name}"), why))
    });
    count.transpose()
}

pub(super) fn check_content_type(field: String, value: &InferParameter) -> Result<()> {
    if let Some(ParameterChoice::StringParam(kind)) = &value.parameter_choice
        && CONTENT_TYPES.contains(&kind.as_str())
    {
        return Ok(());
    }
    let why = "expected `np` or `str`: tensors are passed to the graph without decoding";
    Err(wrong(field, why))
}

fn boolean(name: &str, value: &ParameterChoice) -> Result<bool> {
    match value {
        ParameterChoice::BoolParam(value) => Ok(*value),
        _ => Err(wrong(field(name), "expected true or false")),
    }
}

/// Reads a whole number. `why` is the error message if it is out of range or not a number.
fn number<T: TryFrom<i64> + TryFrom<u64>>(
    name: &str,
    value: &ParameterChoice,
    why: &str,
) -> Result<T> {
    let number = match value {
        ParameterChoice::Int64Param(value) => T::try_from(*value).ok(),
        ParameterChoice::Uint64Param(value) => T::try_from(*value).ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(field(name), why))
}

/// The settings in the parameters of a request.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) sides: SidePackets,
    /// Time limit of the answer; `None` if the request sets none.
    pub(crate) timeout: Option<Duration>,
    /// Priority level; 0 if the request sets none.
    pub(crate) priority: u32,
    /// Timestamp of the request's packets.
    pub(crate) time: Option<Timestamp>,
    /// True to send a message after the last answer of a stream's request.
    pub(crate) says_final: bool,
}

impl Settings {
    /// Reads the parameters of a request that starts a run.
    pub(crate) fn read(parameters: &ParameterMap, plan: &Plan) -> Result<Self> {
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

    /// Reads the parameters of a request that continues a run. It cannot have side packets.
    pub(crate) fn read_next(parameters: &ParameterMap) -> Result<Self> {
        let mut settings = Self::default();
        for (name, parameter) in parameters {
            if !settings.set(name, value(name, parameter)?)? {
                let why = "only the first request of a run can have side packets";
                return Err(wrong(field(name), why));
            }
        }
        if settings.priority > 0 {
            let why = "only the first request of a run can have a priority";
            return Err(wrong(field(PRIORITY), why));
        }
        Ok(settings)
    }

    /// Reads a parameter of the protocol. Returns false if the name is unknown.
    fn set(&mut self, name: &str, value: &ParameterChoice) -> Result<bool> {
        match name {
            TIMESTAMP => {
                let time = number(name, value, "expected a 64-bit whole number")?;
                let at = Timestamp::new(time);
                if at.value() != time {
                    let why = format_args!("{time} is not a valid timestamp of a packet");
                    return Err(wrong(field(name), why));
                }
                self.time = Some(at);
            }
            TIMEOUT => {
                let micros = number(name, value, "expected a whole number of microseconds")?;
                // Clients of Triton send 0 for no limit.
                self.timeout = (micros > 0).then(|| Duration::from_micros(micros));
            }
            BINARY_OUTPUT => _ = boolean(name, value)?,
            FINAL_RESPONSE => self.says_final = boolean(name, value)?,
            ID | START | END => {}
            PRIORITY => {
                let why = "expected the number of a priority level, or 0";
                self.priority = number(name, value, why)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Refuses a level that no node of the graph has.
fn check_priority(priority: u32, plan: &Plan) -> Result<()> {
    let batchers = plan.resources::<Batcher>();
    let batchings = batchers.iter().map(|batcher| &batcher.info().batching);
    let levels = batchings.filter(|batching| batching.has_priorities());
    let why = match levels.map(|batching| batching.levels.len()).min() {
        None => "no node of the graph has priority levels".to_owned(),
        Some(levels) if priority as usize > levels => {
            format!("expected a level from 1 to {levels}, not {priority}")
        }
        Some(_) => return Ok(()),
    };
    Err(wrong(field(PRIORITY), why))
}

fn unknown(name: &str, plan: &Plan) -> Failure {
    let shown = &*shortened(name, SHOWN_BYTES);
    let sides = &plan.explain().side_inputs;
    // A port is written with its tag, which comes before the name.
    let names = sides.iter();
    let names = names.map(|port| port.rsplit(':').next().unwrap_or(port));
    let near = suggest::nearest(shown, names);
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let message = format!("the graph has no side packet for the parameter `{shown}`{near}");
    Failure::new(Cause::BadRequest, message).with_field(field(name))
}

/// The id of a sequence, unique for a key and a graph.
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

/// The control of a sequence in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SequenceControl {
    pub(super) id: Id,
    /// True for the first request.
    pub(crate) starts: bool,
    /// True for the last request.
    pub(crate) ends: bool,
}

impl SequenceControl {
    /// Reads the parameters. `None` if the request belongs to no sequence; clients also write that
    /// as id 0 or an empty id.
    pub(crate) fn read(parameters: &ParameterMap) -> Result<Option<Self>> {
        let find = |name: &str| {
            let parameter = parameters.get(name);
            parameter.map(|it| value(name, it)).transpose()
        };
        let flag = |name: &str| find(name)?.map_or(Ok(false), |value| boolean(name, value));
        let (starts, ends) = (flag(START)?, flag(END)?);
        let id = match find(ID)? {
            None => None,
            Some(ParameterChoice::StringParam(text)) if text.len() > MAX_ID_BYTES => {
                let why = format_args!("at most {MAX_ID_BYTES} bytes are allowed");
                return Err(wrong(field(ID), why));
            }
            Some(ParameterChoice::StringParam(text)) => {
                (!text.is_empty()).then(|| Id::Text(text.clone()))
            }
            Some(value) => {
                let why = "expected a string, or a whole number of at least 0";
                let number = number(ID, value, why)?;
                (number > 0).then_some(Id::Number(number))
            }
        };
        match id {
            Some(id) => Ok(Some(Self { id, starts, ends })),
            None if starts || ends => {
                let name = if starts { START } else { END };
                Err(wrong(field(name), "`sequence_id` is missing"))
            }
            None => Ok(None),
        }
    }
}
