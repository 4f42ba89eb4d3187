//! `<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>`:
//! Qwen3-Coder, and Seed-OSS with marks of its own around it. Values are written as they are, so
//! what kind they have is up to the tool's schema.

use serde_json::{Map, Value};

use super::grammar::{Parameter, Part, Spelling};
use super::read::{Call, Read, Reader, Stop};
use super::tools::Tools;
use super::{Format, Opener, anywhere};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const SEED_OPEN: &str = "<seed:tool_call>";
const SEED_CLOSE: &str = "</seed:tool_call>";
const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

pub(super) struct Qwen3Coder;

impl Format for Qwen3Coder {
    fn openers(&self) -> &'static [Opener] {
        const { &[anywhere(OPEN), anywhere(SEED_OPEN), anywhere(FUNCTION)] }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        tools: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        for open in [OPEN, SEED_OPEN] {
            reader.optional(|reader| reader.literal(open))?;
        }
        reader.space();
        reader.literal(FUNCTION)?;
        let name = reader.until(&[">"])?.0.trim();
        if name.is_empty() {
            return Err(Stop::Not);
        }
        calls.push(Call {
            name: name.into(),
            arguments: "".into(),
            complete: false,
        });
        let index = calls.len() - 1;
        let mut arguments = Map::new();
        loop {
            reader.space();
            let ended = reader.optional(|reader| reader.literal(FUNCTION_END))?;
            if ended.is_some() {
                break;
            }
            reader.literal(PARAMETER)?;
            let key = reader.until(&[">"])?.0.trim();
            let value = reader.until(&[PARAMETER_END])?.0;
            let before = arguments.insert(key.to_owned(), self::value(name, key, value, tools));
            if before.is_some() {
                return Err(Stop::Not);
            }
            let written = Value::Object(arguments.clone()).to_string();
            // Others may follow before the object ends.
            calls[index].arguments = written[..written.len() - 1].to_owned().into();
        }
        calls[index].arguments = Value::Object(arguments).to_string().into();
        calls[index].complete = true;
        reader.closing(CLOSE)?;
        reader.closing(SEED_CLOSE)
    }

    fn spelling(&self, template: &str) -> Spelling {
        let call: &[Part] = if template.contains(SEED_OPEN) {
            &[
                Part::Mark(SEED_OPEN),
                Part::Text("\n<function="),
                Part::Name,
                Part::Text(">\n"),
                Part::Parameters(Parameter {
                    before: PARAMETER,
                    between: ">",
                    gap: "",
                    end: PARAMETER_END,
                }),
                Part::Text("</function>\n"),
                Part::Mark(SEED_CLOSE),
            ]
        } else {
            &[
                Part::Mark(OPEN),
                Part::Text("\n<function="),
                Part::Name,
                Part::Text(">\n"),
                Part::Parameters(Parameter {
                    before: PARAMETER,
                    between: ">\n",
                    gap: "\n",
                    end: PARAMETER_END,
                }),
                Part::Text("</function>\n"),
                Part::Mark(CLOSE),
            ]
        };
        Spelling {
            open: &[],
            call,
            separator: Some(&[Part::Text("\n")]),
            close: &[],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[OPEN, CLOSE, SEED_OPEN, SEED_CLOSE]
    }
}

/// What a parameter's text means: itself, or the JSON in it where the tool does not ask for text.
fn value(tool: &str, parameter: &str, text: &str, tools: &Tools) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    if tools.takes_text(tool, parameter) {
        return text.into();
    }
    match text.trim() {
        // Templates in Python write them so.
        "True" => true.into(),
        "False" => false.into(),
        "None" => Value::Null,
        json => serde_json::from_str(json).unwrap_or_else(|_| text.into()),
    }
}
