//! DeepSeek's marks: a type, a name and a block of JSON for each call (V3, R1), or the name and the JSON alone (V3.1).

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
