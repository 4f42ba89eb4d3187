//! `{"name": ..., "parameters": {...}}`, with or without `<|python_tag|>` before it, several with
//! `;` between them; and `<|python_tag|>name.call(key="value")` for the tools that Llama 3 knows by
//! itself.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::grammar::{Part, Spelling};
use super::read::{Call, Read, Reader, Stop};
use super::tools::Tools;
use super::{Format, Opener, anywhere, at_start};

pub(super) const TAG: &str = "<|python_tag|>";
/// Names under which clients offer a tool that runs Python.
const INTERPRETERS: [&str; 3] = ["python", "ipython", "code_interpreter"];

pub(super) struct Llama3;

impl Format for Llama3 {
    fn openers(&self) -> &'static [Opener] {
        const { &[anywhere(TAG), at_start("{")] }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        tools: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        let tagged = reader.peek()? != '{';
        if tagged {
            reader.literal(TAG)?;
            reader.space();
            if reader.peek()? != '{' {
                return python(reader, tools, calls);
            }
        }
        if !tagged {
            reader.call_key()?;
        }
        loop {
            let before = calls.len();
            let read = reader.call(calls);
            // JSON that nothing marks as a call is one only where there is such a tool.
            let known = |call: &Call<'_>| tagged || tools.has(&call.name);
            if !calls[before..].iter().all(known) {
                calls.truncate(before);
                return Err(Stop::Not);
            }
            read?;
            let next = |reader: &mut Reader<'a, '_>| {
                reader.space();
                reader.literal(";")?;
                reader.space();
                if reader.peek()? == '{' {
                    Ok(())
                } else {
                    Err(Stop::Not)
                }
            };
            if reader.optional(next)?.is_none() {
                return Ok(());
            }
        }
    }

    /// The models were trained for one call at a time.
    fn spelling(&self, _: &str) -> Spelling {
        Spelling {
            open: &[],
            call: &[
                Part::Text("{\"name\": \""),
                Part::Name,
                Part::Text("\", \"parameters\": "),
                Part::Arguments,
                Part::Text("}"),
            ],
            separator: None,
            close: &[],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[TAG]
    }
}

/// A call of a built-in tool, or a program for the tool that runs programs.
fn python<'a>(reader: &mut Reader<'a, '_>, tools: &Tools, calls: &mut Vec<Call<'a>>) -> Read<()> {
    let built_in = |reader: &mut Reader<'a, '_>| {
        let name = reader.name()?.strip_suffix(".call").ok_or(Stop::Not)?;
        reader.literal("(")?;
        let arguments = keywords(reader)?;
        Ok((name, arguments))
    };
    if let Some((name, arguments)) = reader.optional(built_in)? {
        calls.push(complete(name.into(), arguments));
        return Ok(());
    }
    let interpreter = INTERPRETERS.iter().find(|name| tools.has(name));
    let name = interpreter.ok_or(Stop::Not)?;
    let code = reader.remaining()?;
    let arguments = Map::from_iter([("code".to_owned(), Value::from(code.trim_end()))]);
    calls.push(complete(Cow::Borrowed(name), arguments));
    Ok(())
}

fn complete(name: Cow<'_, str>, arguments: Map<String, Value>) -> Call<'_> {
    Call {
        name,
        arguments: Value::Object(arguments).to_string().into(),
        complete: true,
    }
}

/// `key="value", key="value")`
fn keywords(reader: &mut Reader<'_, '_>) -> Read<Map<String, Value>> {
    let mut arguments = Map::new();
    loop {
        reader.space();
        if reader.optional(|reader| reader.literal(")"))?.is_some() {
            return Ok(arguments);
        }
        if !arguments.is_empty() {
            reader.literal(",")?;
            reader.space();
        }
        let key = reader.name()?;
        reader.space();
        reader.literal("=")?;
        reader.space();
        arguments.insert(key.to_owned(), reader.text()?.into());
    }
}
