//! What a script says.

use std::path::PathBuf;

use serde::Deserialize;

const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// What a scripted model does. The JSON form is the content of a `.script.json` file.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The model's name.
    pub name: String,
    /// KV cells of all sequences together.
    pub cells: u32,
    /// Tokens a sequence can have.
    pub context: u32,
    /// Whether sequences go on from others with checkpoints, as those of recurrent models.
    pub checkpoints: bool,
    /// The chat template.
    pub chat_template: String,
    /// Texts that begin the assistant's turn in a prompt; without any, that of `ChatML`. Where
    /// several do, the answer follows the longest.
    pub turns: Vec<String>,
    /// Spellings of more special tokens. In the text of a reply they are these tokens.
    pub special_tokens: Vec<String>,
    /// Answers, the first that fits is given.
    pub replies: Vec<Reply>,
    /// How long a step takes, in microseconds; gives the timing of a real model to tests that need
    /// a generation to last.
    pub step_micros: u64,
    /// Steps, counted from 1, whose batch fails.
    pub fail_steps: Vec<u64>,
    /// Steps, counted from 1, that panic.
    pub panic_steps: Vec<u64>,
    /// A file; steps that hang go on when it is there. Without it they hang for ever.
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
    /// A text that must occur before the assistant's turn; empty fits always.
    pub when: String,
    /// The answer.
    pub text: String,
    /// What follows the answer's last byte.
    pub then: Then,
}

/// What a [`Reply`] ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The end token.
    #[default]
    End,
    /// The answer again, without end.
    Repeat,
    /// A failing step.
    Fail,
    /// A panicking step.
    Panic,
    /// A step that does not end before the script's `release` is there.
    Hang,
    /// A panic that the engine's thread does not survive.
    Die,
}
