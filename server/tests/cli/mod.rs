//! The binary as operators use it: one command that serves a model, the flags of OpenVINO Model
//! Server, the environment, and the tools of the terminal.

mod chat;
mod check;
mod describe;
mod documents;
mod folders;
mod help;
mod hub;
mod lines;
mod models_dir;
mod one_command;
#[cfg(feature = "onnx")]
mod onnx;
mod other_flags;
mod quantize;
mod remote;
mod repository;
mod schema;
mod scripted;
mod settings;
mod stand_in_hub;
mod support;
mod top;
mod torchserve;
#[cfg(feature = "onnx")]
mod triton;
