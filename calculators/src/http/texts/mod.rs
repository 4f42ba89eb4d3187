//! Nodes that convert texts from and to requests: they replace HTTP around the model in tensor
//! graphs.

mod answer;
mod request;

pub use answer::{TextAnswer, TextAnswerPorts};
pub use request::{TextRequestNode, TextRequestOptions};
