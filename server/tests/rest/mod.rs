//! The server over real sockets: a server in this process on a free port, and an HTTP client that
//! knows nothing of it.

mod actor;
mod adapters;
mod agents;
mod beyond_limits;
mod bodies;
mod cancel;
mod chains;
mod chat;
#[cfg(all(unix, feature = "llama"))]
mod classes;
mod collector;
mod command_line;
mod connections;
mod deadlines;
mod dialects;
mod drafts;
mod errors;
mod fairness;
mod features;
mod fields;
mod gaps;
mod gated;
mod generate;
mod generation_config;
mod histories;
mod hugging_face;
#[cfg(feature = "vision")]
mod images;
mod isolation;
mod keys;
mod kserve;
mod listeners;
mod llama_server;
mod lmdeploy;
mod loading;
mod logging;
#[cfg(all(unix, feature = "llama"))]
mod lora;
#[cfg(feature = "vision")]
mod media;
#[cfg(feature = "vision")]
mod media_nodes;
mod memory_by_hand;
mod memory_limit;
mod metrics;
mod names;
mod observe;
mod offline;
mod ollama;
mod page;
mod prompts;
mod queue_bounds;
mod quotas;
mod recovery;
mod reference;
mod refusals;
mod reload;
mod residence;
mod rollback;
mod room;
mod round_trips;
mod routes;
mod service;
mod sharing;
mod sites;
#[cfg_attr(
    not(feature = "vision"),
    allow(dead_code, reason = "few tests have sound")
)]
mod sound_files;
#[cfg(feature = "vision")]
mod sounds;
mod stopping;
mod streams;
mod structured;
mod support;
mod templates;
mod tiny_model;
mod tls;
mod token_ids;
mod tokens;
mod torchserve;
mod torchserve_grpc;
mod toy_dialect;
mod traces;
#[cfg(feature = "vision")]
mod transcriptions;
mod vectors;
mod versions;
mod vllm;
