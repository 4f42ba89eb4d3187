//! The server over real sockets: a server in this process on a free port, and an HTTP client that
//! knows nothing of it.

mod actor;
mod adapters;
mod bodies;
mod cancel;
mod chat;
mod collector;
mod command_line;
mod connections;
mod dialects;
mod drafts;
mod errors;
mod fairness;
mod features;
mod fields;
mod gaps;
mod generation_config;
mod isolation;
mod keys;
mod kserve;
mod loading;
mod logging;
mod memory_limit;
mod metrics;
mod offline;
mod prompts;
mod quotas;
mod recovery;
mod reference;
mod reload;
mod routes;
mod service;
#[path = "../serving/mod.rs"]
mod serving;
mod sharing;
mod sites;
mod stopping;
mod streams;
mod structured;
mod support;
mod tiny_model;
mod tls;
mod traces;
