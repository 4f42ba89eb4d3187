//! The table of what arrives over HTTP.

use std::fmt::Write as _;

use super::figure;
use crate::{
    load::stats::{median, quantile},
    results::Share,
};

/// A row for each number of sequences: medians of both rates, and of their ratio with its quarters.
pub(super) fn shares(shares: &[Share]) -> String {
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
