//! Harmony, the format of gpt-oss: a message of the commentary channel to `functions.NAME`.
//! Messages of other channels are the reasoning parser's.

use super::grammar::{Part, Spelling};
use super::read::{Call, Read, Reader, Stop};
use super::tools::Tools;
use super::{Format, Opener, anywhere, at_start};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";
const CALL: &str = "<|call|>";
const END: &str = "<|end|>";
/// Stands before the name of a tool in the head of a message.
const RECIPIENT: &str = " to=functions.";

pub(super) struct GptOss;

impl Format for GptOss {
    fn openers(&self) -> &'static [Opener] {
        // The prompt ends in `<|start|>assistant`, so the first message can begin with its
        // recipient.
        const {
            &[
                anywhere(START),
                anywhere(CHANNEL),
                at_start("to=functions."),
            ]
        }
    }

    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        _: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()> {
        let name = if reader.peek()? == 't' {
            reader.literal("to=functions.")?;
            let name = reader.name()?;
            reader.until(&[MESSAGE])?;
            name
        } else {
            reader.optional(|reader| reader.literal(START))?;
            let (head, _) = reader.until(&[MESSAGE])?;
            let (_, recipient) = head.split_once(RECIPIENT).ok_or(Stop::Not)?;
            let end = recipient.find(|c: char| c == '<' || c.is_whitespace());
            &recipient[..end.unwrap_or(recipient.len())]
        };
        reader.space();
        reader.arguments(name, calls)?;
        let ending = |reader: &mut Reader<'a, '_>| {
            reader.space();
            reader.literal(CALL)
        };
        if reader.optional(ending)?.is_none() {
            reader.closing(END)?;
        }
        Ok(())
    }

    /// The end of the call ends the model's turn.
    fn spelling(&self, _: &str) -> Spelling {
        Spelling {
            open: &[],
            call: &[
                Part::Mark(CHANNEL),
                Part::Text("commentary to=functions."),
                Part::Name,
                Part::Text(" "),
                Part::Mark(CONSTRAIN),
                Part::Text("json"),
                Part::Mark(MESSAGE),
                Part::Arguments,
            ],
            separator: None,
            close: &[],
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        &[START, CHANNEL, CONSTRAIN, MESSAGE, CALL, END]
    }
}
