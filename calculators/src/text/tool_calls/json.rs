//! Calls as nothing but JSON, for models that were told to: an object, an array of objects, or
//! these under `tool_calls`; in a fenced block or not.

use super::grammar::{JSON_CALL, Spelling};
use super::read::{Call, Read, Reader, Stop};
use super::tools::Tools;
use super::{Format, Opener, at_start};

const FENCE: &str = "```";

pub(super) struct Json;

impl Format for Json {
    fn openers(&self) -> &'static [Opener] {
        const { &[at_start("{"), at_start("["), at_start(FENCE)] }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        tools: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        let fenced = reader.peek()? == '`';
        if fenced {
            reader.literal(FENCE)?;
            reader.optional(|reader| reader.literal("json"))?;
            reader.space();
        }
        let read = match reader.peek()? {
            '[' => reader.calls(calls),
            '{' => {
                reader.call_key()?;
                let section = reader.optional(|reader| {
                    for literal in ["{", "\"tool_calls\"", ":"] {
                        reader.literal(literal)?;
                        reader.space();
                    }
                    Ok(())
                })?;
                match section {
                    None => reader.call(calls),
                    Some(()) => reader.calls(calls).and_then(|()| {
                        reader.space();
                        reader.literal("}")
                    }),
                }
            }
            _ => Err(Stop::Not),
        };
        // Nothing but the name tells a call from an answer in JSON.
        if !calls.iter().all(|call| tools.has(&call.name)) {
            calls.clear();
            return Err(Stop::Not);
        }
        read?;
        if fenced {
            reader.closing(FENCE)?;
        }
        Ok(())
    }

    fn spelling(&self, _: &str) -> Spelling {
        Spelling {
            open: &[],
            call: JSON_CALL,
            separator: None,
            close: &[],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[]
    }
}
