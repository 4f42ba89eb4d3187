//! What a request is of a sequence, as its parameters say.

use super::{Parameter, Parameters, wrong};
use crate::errors::Failure;

/// Most bytes of an id: longer ones are no ids, and each is kept.
const MAX_ID_BYTES: usize = 128;

/// The parameters that say what of a sequence a request is.
pub(super) const ID: &str = "sequence_id";
pub(super) const START: &str = "sequence_start";
const END: &str = "sequence_end";

/// Whether a parameter is one of these.
pub(super) fn is_parameter(name: &str) -> bool {
    [ID, START, END].contains(&name)
}

/// What names a sequence among those of a key and a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Number(u64),
    Text(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "`{text}`"),
        }
    }
}

/// What a request is of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SequenceControl {
    pub(super) id: Id,
    /// Whether it is the first.
    pub(crate) starts: bool,
    /// Whether it is the last.
    pub(crate) ends: bool,
}

impl SequenceControl {
    /// What the parameters say; none where the request is of no sequence, which clients write as
    /// the id 0 or an empty one, too.
    pub(crate) fn read(parameters: &Parameters) -> Result<Option<Self>, Failure> {
        let find = |name: &str| {
            let mut parameters = parameters.iter();
            parameters.find_map(|(other, value)| (other == name).then_some(value))
        };
        let flag = |name: &'static str| match find(name) {
            None => Ok(false),
            Some(Parameter::Bool(value)) => Ok(*value),
            Some(_) => Err(wrong(field(name), "it is true or false")),
        };
        let (starts, ends) = (flag(START)?, flag(END)?);
        let id = match find(ID) {
            None => None,
            Some(Parameter::Text(text)) if text.len() > MAX_ID_BYTES => {
                let why = format_args!("it has at most {MAX_ID_BYTES} bytes");
                return Err(wrong(field(ID), why));
            }
            Some(Parameter::Text(text)) => (!text.is_empty()).then(|| Id::Text(text.clone())),
            Some(number) => {
                let number = match number {
                    Parameter::Uint(number) => Some(*number),
                    other => other.integer().and_then(|it| u64::try_from(it).ok()),
                };
                let why = "it is a text, or a whole number of at least 0";
                let number = number.ok_or_else(|| wrong(field(ID), why))?;
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

/// The name of a parameter in messages.
pub(super) fn field(name: &str) -> String {
    format!("parameters.{name}")
}
