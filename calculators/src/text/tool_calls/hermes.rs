//! `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen and many after them.

use super::grammar::{Part, Spelling};
use super::read::{Call, Read, Reader};
use super::tools::Tools;
use super::{Format, Opener, anywhere};

pub(super) const OPEN: &str = "<tool_call>";
pub(super) const CLOSE: &str = "</tool_call>";

pub(super) struct Hermes;

impl Format for Hermes {
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
        reader.call(calls)?;
        reader.closing(CLOSE)
    }

    fn spelling(&self, _: &str) -> Spelling {
        Spelling {
            open: &[],
            call: &[
                Part::Mark(OPEN),
                Part::Text("\n{\"name\": \""),
                Part::Name,
                Part::Text("\", \"arguments\": "),
                Part::Arguments,
                Part::Text("}\n"),
                Part::Mark(CLOSE),
            ],
            separator: Some(&[Part::Text("\n")]),
            close: &[],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[OPEN, CLOSE]
    }
}
