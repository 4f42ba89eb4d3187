//! Hugging Face's Text Generation Inference (TGI), which continues a text. LightLLM has the same
//! requests, and its own form of answers.

mod answer;
mod best_of;
mod lightllm;
mod pieces;
mod request;

use graphmill_dialects::{
    Fields,
    bodies::{TGI, TGI_EITHER, TGI_STREAM},
};
use graphmill_engine::Result;
use serde_json::Value;

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Failure, Family, Place, Purpose, Route, TextDialect},
    hugging_face as errors,
    tei::Tei,
};
use crate::payload::{JsonBody, RequestInput, TextRequest};

/// A dialect of TGI's, for one path.
#[derive(Debug)]
pub(super) struct Tgi {
    endpoint: &'static str,
    routes: &'static [Route],
    /// True if answers at this path are always streams.
    streams: bool,
    /// Dialects that have the same path.
    others: &'static [&'static dyn Dialect],
}

impl Tgi {
    /// The dialect of paths whose answers are one object.
    pub(super) const WHOLE: Self = Self {
        endpoint: TGI,
        routes: &[Route {
            path: "generate",
            purpose: Purpose::Answer,
            summary: "Continues a text, as TGI does",
            required: &["inputs"],
            answer: &["generated_text"],
        }],
        streams: false,
        others: &[],
    };
    /// The dialect of paths whose answers are streams.
    pub(super) const STREAM: Self = Self {
        endpoint: TGI_STREAM,
        routes: &[Route {
            path: "generate_stream",
            purpose: Purpose::Answer,
            summary: "Continues a text as a stream, as TGI does",
            required: &["inputs"],
            answer: &["token"],
        }],
        streams: true,
        others: &[],
    };
    /// The dialect of the path at which the body chooses the form of the answer.
    pub(super) const EITHER: Self = Self {
        endpoint: TGI_EITHER,
        routes: &[Route {
            path: "",
            purpose: Purpose::Answer,
            summary: "Continues a text, or makes vectors, as TGI and TEI do for clients that know the address alone",
            required: &["inputs"],
            answer: &[],
        }],
        streams: false,
        others: &[&Tei::EMBED, &Tei::SIMILARITY],
    };
}

impl Dialect for Tgi {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    fn place(&self) -> Place {
        Place::Bare
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }

    fn others(&self) -> &'static [&'static dyn Dialect] {
        self.others
    }

    fn is_meant(&self, body: &JsonBody) -> bool {
        let inputs = body.text("inputs").unwrap_or_default();
        !matches!(inputs.first(), Some(b'[' | b'{'))
    }

    fn status(&self, status: u16) -> u16 {
        errors::status(status)
    }

    fn error(&self, failure: &Failure<'_>) -> Value {
        errors::error(failure)
    }

    fn error_form(&self) -> &'static str {
        errors::FORM
    }
}

impl TextDialect for Tgi {
    fn id_prefix(&self) -> &'static str {
        "tgi-"
    }

    fn continues_prompts(&self) -> bool {
        true
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        request::read(body, fields, self.streams)
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        let is_listed = self.endpoint == TGI_EITHER;
        if request.choices() > 1 {
            Box::new(best_of::BestOf::new(request, is_listed))
        } else if request::is_of_lightllm(request) {
            Box::new(lightllm::Texts::default())
        } else {
            Box::new(answer::Texts::new(is_listed))
        }
    }
}
