//! The request: a file, and what is known of it.

use graphmill_engine::Result;
use serde_json::{Map, json};

use crate::http::fields::{Fields, missing};
use crate::http::translate::{Content, Names, Translated, Turns};
use crate::payload::JsonBody;

/// The dialect has no other names for fields of chat.
const NAMES: &Names = &Names {
    fields: &[("messages", "file")],
    parameters: "parameters",
};

/// Fields that are read here, or that change nothing.
const READ: &[&str] = &[
    "file",
    "language",
    "prompt",
    "response_format",
    "timestamp_granularities",
    "include",
    "chunking_strategy",
    "messages",
    "tools",
    "tool_choice",
    "n",
];

/// What the model is asked to do with the sound.
const INSTRUCTION: &str = "Transcribe the speech in the audio word for word. Answer with the transcript and nothing else.";

/// A request for a transcription as one for chat.
pub(super) fn to_chat(json: &JsonBody) -> Result<Translated> {
    let body = Fields::from(json);
    let file = body.str("file")?.ok_or_else(|| missing("file"))?;
    let mut content = Content::default();
    content.sound(file, "file".to_owned());
    content.text(&instruction(body.str("language")?, body.str("prompt")?));
    let mut turns = Turns::default();
    turns.say_content("user", content);
    let mut chat = json.without(READ);
    let media = turns.take_media();
    chat.insert("messages", turns.into_messages().into());
    let mut echo = Map::new();
    if let Some(format) = body.str("response_format")? {
        echo.insert("response_format".to_owned(), json!(format));
    }
    Ok(Translated {
        echo,
        names: NAMES,
        media,
        ..Translated::new(chat)
    })
}

/// The instruction, and what the request tells of the sound.
fn instruction(language: Option<&str>, prompt: Option<&str>) -> String {
    let told = [("Language", language), ("Context", prompt)].map(|(what, text)| {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        text.map_or_else(String::new, |text| format!("\n{what}: {text}"))
    });
    format!("{INSTRUCTION}{}", told.concat())
}
