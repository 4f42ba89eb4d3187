//! `[TOOL_CALLS]`: before an array of calls, or, in later models, before a name and its arguments.

use super::grammar::{JSON_CALL, Part, Spelling};
use super::read::{Call, Read, Reader};
use super::tools::Tools;
use super::{Format, Opener, anywhere};

const OPEN: &str = "[TOOL_CALLS]";
const ARGUMENTS: &str = "[ARGS]";
const CALL_ID: &str = "[CALL_ID]";

pub(super) struct Mistral;

impl Format for Mistral {
    fn openers(&self) -> &'static [Opener] {
        const { &[anywhere(OPEN)] }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        _: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        reader.literal(OPEN)?;
        reader.space();
        if reader.peek()? == '[' {
            return reader.calls(calls);
        }
        let name = reader.name()?;
        let id = reader.optional(|reader| reader.literal(CALL_ID))?;
        if id.is_some() {
            reader.name()?;
        }
        reader.optional(|reader| reader.literal(ARGUMENTS))?;
        reader.space();
        reader.arguments(name, calls)
    }

    fn spelling(&self, template: &str) -> Spelling {
        if template.contains(ARGUMENTS) {
            return Spelling {
                open: &[],
                call: &[
                    Part::Mark(OPEN),
                    Part::Name,
                    Part::Mark(ARGUMENTS),
                    Part::Arguments,
                ],
                separator: Some(&[]),
                close: &[],
            };
        }
        Spelling {
            open: &[Part::Mark(OPEN), Part::Text("[")],
            call: JSON_CALL,
            separator: Some(&[Part::Text(", ")]),
            close: &[Part::Text("]")],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[OPEN, ARGUMENTS, CALL_ID]
    }

    /// The models' own templates refuse any other id: nine letters and digits.
    fn call_id(&self, random: &str) -> String {
        random.chars().take(9).collect()
    }
}
