//! Conversion of a request for a transcript to a conversation about a sound.

use graphmill_dialects::{Fields, bodies::transcriptions::Transcriptions, json::JsonBody};
use graphmill_engine::Result;

use crate::http::{
    OwnParams,
    chat::conversation,
    fields::missing,
    turns::{Content, Turns},
};
use crate::payload::{MediaKind, RequestInput};

/// Instruction to the model, before the sound.
const INSTRUCTION: &str = "Transcribe the speech in the audio word for word. Answer with the transcript and nothing else.";

/// Reads the conversation and own parameters of a request.
pub(super) fn read(body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
    let own: Transcriptions = fields.take()?;
    let mut content = Content::default();
    let file = own.file.ok_or_else(|| missing("file"))?;
    content.medium(MediaKind::Sound, &file, "file");
    content.text(&instruction(&own.language, &own.prompt));
    let mut turns = Turns::default();
    turns.say("user", content);
    let (chat, mut params) = conversation(fields.take()?, fields.take()?, turns)?;
    let format = body.get("response_format")?;
    let format = format.map(|format| ("response_format".to_owned(), format.clone()));
    params.repeated.extend(format);
    Ok((RequestInput::Chat(chat), params))
}

/// Returns the instruction, with the request's details about the sound.
fn instruction(language: &str, prompt: &str) -> String {
    let told = [("Language", language), ("Context", prompt)].map(|(what, text)| {
        let text = Some(text.trim()).filter(|text| !text.is_empty());
        text.map_or_else(String::new, |text| format!("\n{what}: {text}"))
    });
    format!("{INSTRUCTION}{}", told.concat())
}
