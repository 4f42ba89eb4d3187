//! The binary as operators use it: one command that serves a model, the flags of OpenVINO Model
//! Server, the environment, and the tools of the terminal.

mod chat;
mod check;
mod describe;
mod documents;
mod folders;
mod help;
mod lines;
mod one_command;
#[cfg(feature = "onnx")]
mod onnx;
mod remote;
mod repository;
mod schema;
mod scripted;
mod settings;
mod support;
mod top;
