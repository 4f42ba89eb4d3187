//! Results as tables in Markdown.

use std::fmt::Write as _;

use crate::{
    load::stats::{median, quantile},
    results::{Results, Share, Start},
};

mod runs;
mod speeds;

use runs::{ratios, runs};
use speeds::speeds;

/// All results; what was not measured is left out.
pub fn all(results: &Results) -> String {
    let mut parts = Vec::new();
    if !results.speeds.is_empty() {
        parts.push(speeds(&results.speeds));
    }
    if !results.shares.is_empty() {
        parts.push(shares(&results.shares));
    }
    if !results.starts.is_empty() {
        parts.push(starts(&results.starts));
    }
    if !results.runs.is_empty() {
        parts.push(runs(&results.runs));
    }
    let ratios = ratios(&results.runs);
    if !ratios.is_empty() {
        parts.push(ratios);
    }
    parts.join("\n")
}

/// Starts of servers, as medians.
fn starts(starts: &[Start]) -> String {
    let mut text = String::from("| model | server | ready after | RSS |\n|---|---|---:|---:|\n");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for start in starts {
        let key = (start.model.as_str(), start.server.as_str());
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let same: Vec<&Start> = starts
            .iter()
            .filter(|start| key == (&start.model, &start.server))
            .collect();
        let seconds = median(same.iter().map(|start| start.seconds).collect());
        let mib = median(same.iter().filter_map(|start| start.mib).collect());
        writeln!(
            text,
            "| {} | {} | {seconds:.2} s | {mib:.0} MiB |",
            key.0, key.1
        )
        .expect("a string takes all");
    }
    text
}

/// What arrives over HTTP, a row for each number of sequences: medians of both rates, and of their
/// ratio with its quarters.
fn shares(shares: &[Share]) -> String {
    let mut text = String::from(
        "| model | sequences | tokens | llama.cpp alone | over HTTP | ratio | pairs of turns |\n|---|---:|---|---:|---:|---:|---:|\n",
    );
    for share in shares {
        let ratios = share.ratios();
        let rate =
            |of: fn(&(f64, f64)) -> f64| figure(median(share.pairs.iter().map(of).collect()));
        writeln!(
            text,
            "| {} | {} | {} after {} | {} | {} | {} ({} to {}) | {} of {} s |",
            share.model,
            share.sequences,
            share.tokens,
            share.prompt_tokens,
            rate(|pair| pair.1),
            rate(|pair| pair.0),
            figure(quantile(&ratios, 0.5)),
            figure(quantile(&ratios, 0.25)),
            figure(quantile(&ratios, 0.75)),
            ratios.len(),
            share.turn,
        )
        .expect("a string takes all");
    }
    text
}

/// A number with three digits that mean something.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
