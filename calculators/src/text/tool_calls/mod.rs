//! Calls of tools in the text of a model: how models write them, and the node that reads them.
//!
//! A format says what may begin a call (`Format::openers`) and parses from there (`Format::read`).
//! The rest is shared by all formats and is in `parser`: holding text back, forwarding calls in
//! pieces, and returning text that turns out not to be a call. A format never reads more text than
//! it needs, so the division of a text into chunks makes no difference.

mod deepseek;
mod gptoss;
pub(crate) mod grammar;
mod hermes;
mod json;
mod llama3;
mod mistral;
pub(crate) mod parser;
mod phi4;
mod qwen3coder;
mod read;
mod scan;
mod tools;

use self::grammar::Spelling;
use self::read::{Call, Read, Reader};
pub(crate) use self::tools::Tools;
use super::formats::{Formats, Named};

/// How a model writes calls of tools.
pub(crate) trait Format: Send + Sync {
    /// What may begin a call. None begins another.
    fn openers(&self) -> &'static [Opener];

    /// Reads what an opener begins, up to its end, and adds the calls in it. The last one may be
    /// incomplete where more text is needed.
    fn read<'a>(
        &self,
        reader: &mut Reader<'a, '_>,
        tools: &Tools,
        calls: &mut Vec<Call<'a>>,
    ) -> Read<()>;

    /// How models with this chat template spell calls.
    fn spelling(&self, template: &str) -> Spelling;

    /// Spellings of tokens that have to be read, even where the vocabulary has them as special
    /// tokens.
    fn markers(&self) -> &'static [&'static str];

    /// An id for a call: `random` letters and digits.
    fn call_id(&self, random: &str) -> String {
        format!("call_{random}")
    }
}

/// A text that may begin a call.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Opener {
    pub(crate) text: &'static str,
    /// Whether it begins calls only where nothing but white space comes before it.
    pub(crate) at_start: bool,
}

/// An opener for any place.
const fn anywhere(text: &'static str) -> Opener {
    Opener {
        text,
        at_start: false,
    }
}

/// An opener for the beginning of a text.
const fn at_start(text: &'static str) -> Opener {
    Opener {
        text,
        at_start: true,
    }
}

/// All formats; the last is for templates that teach none of the others.
pub(crate) static FORMATS: Formats<dyn Format> = Formats {
    of: "tool calls",
    all: &[
        Named {
            names: &["gptoss", "gpt_oss", "harmony", "openai"],
            format: &gptoss::GptOss,
            taught_by: |template| template.contains("<|channel|>"),
        },
        Named {
            names: &["qwen3coder", "qwen3_coder", "qwen3_xml", "seed_oss"],
            format: &qwen3coder::Qwen3Coder,
            taught_by: |template| {
                template.contains("<parameter=") && template.contains("<function=")
            },
        },
        Named {
            names: &["phi4", "phi4_mini_json", "functools"],
            format: &phi4::Phi4,
            taught_by: |template| {
                template.contains("functools") || template.contains("<|tool_call|>")
            },
        },
        Named {
            names: &["mistral", "devstral"],
            format: &mistral::Mistral,
            taught_by: |template| {
                template.contains("[TOOL_CALLS]") || template.contains("[AVAILABLE_TOOLS]")
            },
        },
        Named {
            names: &["deepseek", "deepseek_v3", "deepseek_v31"],
            format: &deepseek::DeepSeek,
            taught_by: |template| template.contains(deepseek::CALL_BEGIN),
        },
        Named {
            names: &["llama3", "llama3_json", "llama"],
            format: &llama3::Llama3,
            taught_by: |template| template.contains(llama3::TAG),
        },
        Named {
            names: &[
                "hermes",
                "hermes3",
                "hermes2_pro",
                "qwen",
                "qwen25",
                "qwen3",
            ],
            format: &hermes::Hermes,
            taught_by: |template| {
                template.contains(hermes::OPEN) && template.contains(hermes::CLOSE)
            },
        },
        Named {
            names: &["json", "generic"],
            format: &json::Json,
            taught_by: |_| true,
        },
    ],
};

/// The spellings of all formats' marks.
pub(crate) fn markers() -> impl Iterator<Item = &'static str> {
    FORMATS
        .all
        .iter()
        .flat_map(|format| format.format.markers().iter().copied())
}

#[cfg(test)]
mod tests;
