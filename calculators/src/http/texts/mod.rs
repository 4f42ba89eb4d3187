//! Texts in the place of HTTP: what graphs of tensors have before and behind their model.

mod answer;
mod request;

pub use answer::{TextAnswer, TextAnswerPorts};
pub use request::{TextRequestNode, TextRequestOptions, TextRequestPorts};
