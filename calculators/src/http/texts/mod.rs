//! Texts in place of HTTP: the nodes around the model in tensor graphs.

mod answer;
mod request;

pub use answer::{TextAnswer, TextAnswerPorts};
pub use request::{TextRequestNode, TextRequestOptions};
