//! `functools[{"name": ..., "arguments": {...}}, ...]`: Phi 4 and Firefunction; or the array
//! between `<|tool_call|>` marks.

use super::grammar::{JSON_CALL, Part, Spelling};
use super::read::{Call, Read, Reader};
use super::tools::Tools;
use super::{Format, Opener, anywhere};

const WORD: &str = "functools[";
const OPEN: &str = "<|tool_call|>";
const CLOSE: &str = "<|/tool_call|>";

pub(super) struct Phi4;

impl Format for Phi4 {
    fn openers(&self) -> &'static [Opener] {
        const { &[anywhere(WORD), anywhere(OPEN)] }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        _: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        if reader.peek()? == 'f' {
            reader.literal("functools")?;
            return reader.calls(calls);
        }
        reader.literal(OPEN)?;
        reader.space();
        reader.calls(calls)?;
        reader.closing(CLOSE)
    }

    fn spelling(&self, template: &str) -> Spelling {
        let marked = template.contains(OPEN);
        Spelling {
            open: if marked {
                &[Part::Mark(OPEN), Part::Text("[")]
            } else {
                &[Part::Text(WORD)]
            },
            call: JSON_CALL,
            separator: Some(&[Part::Text(", ")]),
            close: if marked {
                &[Part::Text("]"), Part::Mark(CLOSE)]
            } else {
                &[Part::Text("]")]
            },
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[OPEN, CLOSE]
    }
}
