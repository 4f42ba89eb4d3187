//! The marks of `DeepSeek`: a type, a name and a block of JSON for each call (V3, R1), or the name
//! and the JSON alone (V3.1).

use super::grammar::{Part, Spelling};
use super::read::{Call, Read, Reader, Stop};
use super::tools::Tools;
use super::{Format, Opener, anywhere};

const CALLS_BEGIN: &str = "<｜tool▁calls▁begin｜>";
const CALLS_END: &str = "<｜tool▁calls▁end｜>";
pub(super) const CALL_BEGIN: &str = "<｜tool▁call▁begin｜>";
const CALL_END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";

pub(super) struct DeepSeek;

impl Format for DeepSeek {
    fn openers(&self) -> &'static [Opener] {
        const { &[anywhere(CALLS_BEGIN), anywhere(CALL_BEGIN)] }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        _: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        reader.optional(|reader| reader.literal(CALLS_BEGIN))?;
        loop {
            reader.space();
            call(reader, calls)?;
            let next = |reader: &mut Reader<'a, '_>| {
                reader.space();
                reader.ahead(CALL_BEGIN)
            };
            if reader.optional(next)?.is_none() {
                return reader.closing(CALLS_END);
            }
        }
    }

    fn spelling(&self, template: &str) -> Spelling {
        let call: &[Part] = if template.contains("```json") {
            &[
                Part::Mark(CALL_BEGIN),
                Part::Text("function"),
                Part::Mark(SEPARATOR),
                Part::Name,
                Part::Text("\n```json\n"),
                Part::Arguments,
                Part::Text("\n```"),
                Part::Mark(CALL_END),
            ]
        } else {
            &[
                Part::Mark(CALL_BEGIN),
                Part::Name,
                Part::Mark(SEPARATOR),
                Part::Arguments,
                Part::Mark(CALL_END),
            ]
        };
        Spelling {
            open: &[Part::Mark(CALLS_BEGIN)],
            call,
            separator: Some(&[]),
            close: &[Part::Mark(CALLS_END)],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, SEPARATOR]
    }
}

fn call<'a>(reader: &mut Reader<'a, '_>, calls: &mut Vec<Call<'a>>) -> Read<()> {
    reader.literal(CALL_BEGIN)?;
    let (first, _) = reader.until(&[SEPARATOR])?;
    reader.space();
    if reader.peek()? == '{' {
        reader.arguments(first.trim(), calls)?;
    } else {
        let name = reader.name()?;
        reader.space();
        reader.literal("```")?;
        reader.optional(|reader| reader.literal("json"))?;
        reader.space();
        reader.arguments(name, calls)?;
        reader.closing("```")?;
    }
    if first.trim().is_empty() {
        return Err(Stop::Not);
    }
    reader.closing(CALL_END)
}
