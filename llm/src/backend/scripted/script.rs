//! The content of a script.

use std::path::PathBuf;

use serde::Deserialize;

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// Behavior of a scripted model. The JSON form is the content of a `.script.json` file.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Name that the vocabulary reports for the model; default `scripted`.
    pub name: String,
    /// KV cells of all sequences together; default 16384.
    pub cells: u32,
    /// Maximum number of tokens of a sequence; default 4096.
    pub context: u32,
    /// True if sequences continue from others with checkpoints, as with recurrent models.
    pub checkpoints: bool,
    /// Chat template in Jinja; the default is that of `ChatML`.
    pub chat_template: String,
    /// Texts that begin the assistant's turn in a prompt; default that of `ChatML`. If several
    /// occur, the answer follows the longest.
    pub turns: Vec<String>,
    /// Spellings of more special tokens. In the text of a reply they are these tokens.
    pub special_tokens: Vec<String>,
    /// Replies; the first whose `when` fits is given.
    pub replies: Vec<Reply>,
    /// Duration of a step in microseconds. Gives the timing of a real model to tests that need a
    /// generation to last.
    pub step_micros: u64,
    /// Numbers of the steps, counted from 1, whose batch fails.
    pub fail_steps: Vec<u64>,
    /// Numbers of the steps, counted from 1, that panic.
    pub panic_steps: Vec<u64>,
    /// File that ends hanging steps as soon as it exists. Without it they hang forever.
    pub release: Option<PathBuf>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            name: "scripted".to_owned(),
            cells: 16_384,
            context: 4_096,
            checkpoints: false,
            chat_template: CHATML.to_owned(),
            turns: Vec::new(),
            special_tokens: Vec::new(),
            replies: Vec::new(),
            step_micros: 0,
            fail_steps: Vec::new(),
            panic_steps: Vec::new(),
            release: None,
        }
    }
}

/// One answer of a [`Script`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Text that must occur before the assistant's turn; an empty one always fits.
    pub when: String,
    /// Text of the answer; the script's `special_tokens` may be spelled out.
    pub text: String,
    /// Ending that follows the answer's last byte.
    pub then: Then,
}

/// Event after the last token of a [`Reply`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The token `<|im_end|>`, which ends the generation.
    #[default]
    End,
    /// The answer again and again, without an end.
    Repeat,
    /// A step that fails with an error.
    Fail,
    /// A step that panics, and the engine continues.
    Panic,
    /// A step that lasts until the script's `release` file exists.
    Hang,
    /// NaN in a cell, which spoils the logits of all sequences until all cells are cleared.
    Spoil,
    /// A panic that the engine's thread does not survive.
    Die,
}
