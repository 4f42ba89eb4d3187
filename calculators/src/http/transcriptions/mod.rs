//! OpenAI's `audio/transcriptions`: the file becomes a sound in a conversation, and the model's
//! answer is the transcript.

mod answer;

use graphmill_dialects::{
    Fields,
    bodies::{TRANSCRIPTIONS, transcriptions::Transcriptions as Own},
};
use graphmill_engine::Result;

use super::{
    OwnParams,
    chat::conversation,
    dialect::{AnswerWriter, Dialect, Family, Purpose, Route, TextDialect},
    fields::missing,
    turns::{Content, Turns},
};
use crate::payload::{JsonBody, MediaKind, RequestInput, TextRequest};

/// Instruction to the model, before the sound.
const INSTRUCTION: &str = "Transcribe the speech in the audio word for word. Answer with the transcript and nothing else.";

/// The dialect of OpenAI's `audio/transcriptions`.
#[derive(Debug)]
pub(super) struct Transcriptions;

impl Dialect for Transcriptions {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: TRANSCRIPTIONS,
            purpose: Purpose::Answer,
            summary: "Writes down what is said in a sound",
            required: &["model", "file"],
            answer: &["text"],
        }]
    }

    fn file_field(&self) -> Option<&'static str> {
        Some("file")
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }
}

impl TextDialect for Transcriptions {
    fn id_prefix(&self) -> &'static str {
        "transcr-"
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let own: Own = fields.take()?;
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

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(answer::Transcript::new(request))
    }
}

/// Returns the instruction, with the request's details about the sound.
fn instruction(language: &str, prompt: &str) -> String {
    let told = [("Language", language), ("Context", prompt)].map(|(what, text)| {
        let text = Some(text.trim()).filter(|text| !text.is_empty());
        text.map_or_else(String::new, |text| format!("\n{what}: {text}"))
    });
    format!("{INSTRUCTION}{}", told.concat())
}
