//! The table of speeds.

use std::fmt::Write as _;

use super::figure;
use crate::results::{By, Speed};

/// Speeds of llama.cpp and of the engine, a row for each number of sequences and a column for each
/// way; in the end the engine's share of the fastest way there is without it.
pub(super) fn speeds(speeds: &[Speed]) -> String {
    let mut ways: Vec<By> = Vec::new();
    let mut rows: Vec<(&str, &str, usize, usize, usize)> = Vec::new();
    for speed in speeds {
        if !ways.contains(&speed.by) {
            ways.push(speed.by);
        }
        if !rows.contains(&row(speed)) {
            rows.push(row(speed));
        }
    }
    // The engine stands in the last column, before its share.
    ways.sort_by_key(|way| *way == By::LlmEngine);
    let engine = ways.last() == Some(&By::LlmEngine);
    let heads: Vec<&str> = ways
        .iter()
        .map(|way| way.name())
        .chain(engine.then_some("engine's share"))
        .collect();
    let mut text = format!(
        "| model | work | sequences | {} |\n|---|---|---:|{}\n",
        heads.join(" | "),
        "---:|".repeat(heads.len())
    );
    for of in rows {
        let rate = |way: By| {
            let found = speeds
                .iter()
                .find(|speed| speed.by == way && row(speed) == of);
            found.map(Speed::median)
        };
        let mut cells: Vec<Option<f64>> = ways.iter().map(|way| rate(*way)).collect();
        if engine {
            let alone = cells[..cells.len() - 1].iter().flatten();
            let ceiling = alone.copied().fold(0.0, f64::max);
            cells.push(rate(By::LlmEngine).map(|rate| rate / ceiling));
        }
        let cells: Vec<String> = cells
            .into_iter()
            .map(|cell| cell.map_or(String::new(), figure))
            .collect();
        let (model, work, sequences, prompt, tokens) = of;
        let work = match tokens {
            0 => format!("{work} {prompt}"),
            tokens => format!("{work} {tokens} after {prompt}"),
        };
        writeln!(
            text,
            "| {model} | {work} | {sequences} | {} |",
            cells.join(" | ")
        )
        .expect("a string takes all");
    }
    text
}

/// What is in one row.
fn row(speed: &Speed) -> (&str, &str, usize, usize, usize) {
    (
        &speed.model,
        speed.work,
        speed.sequences,
        speed.prompt_tokens,
        speed.tokens,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Attention, Layout};

    #[test]
    fn the_engine_is_compared_with_the_fastest_way() {
        let speed = |by, rate| Speed {
            model: "m".to_owned(),
            work: "decode",
            by,
            sequences: 4,
            prompt_tokens: 128,
            tokens: 64,
            rounds: vec![rate],
        };
        let llama = |layout, flash| By::Llama(Attention { layout, flash });
        let text = speeds(&[
            speed(By::LlmEngine, 90.0),
            speed(llama(Layout::PerSequence, false), 100.0),
            speed(llama(Layout::Unified, true), 50.0),
        ]);
        assert!(text.starts_with(
            "| model | work | sequences | per sequence, plain | unified, flash | engine | engine's share |"
        ));
        assert!(
            text.contains("| m | decode 64 after 128 | 4 | 100 | 50.0 | 90.0 | 0.90 |"),
            "{text}"
        );
    }
}
