//! What people see when a graph file is wrong: one test a kind of mistake, and some files with
//! several. Each test holds the whole text that a person sees.
#![allow(
    clippy::needless_raw_string_hashes,
    reason = "all texts are written alike"
)]

use crate::common;

/// Diagnostics of a graph file.
fn graph(text: &str) -> String {
    let (sources, parsed) = common::parsed(text);
    common::shown(&sources, &parsed.diagnostics)
}

macro_rules! check {
    ($text:expr, @$shown:literal) => {
        insta::assert_snapshot!(graph($text), @$shown)
    };
}

mod fields;
mod files;
mod options;
mod ports;
mod structure;
mod words;
