//! Results as tables in Markdown.

use std::fmt::Write as _;

use crate::{
    load::stats::median,
    raw::Layout,
    results::{By, Run, Speed},
};

/// Speeds of llama.cpp and of the engine, a row for each number of sequences.
pub fn speeds(speeds: &[Speed]) -> String {
    let mut models: Vec<&str> = speeds.iter().map(|speed| speed.model.as_str()).collect();
    models.dedup();
    let mut text = String::from(
        "| model | work | sequences | llama.cpp, one pool | llama.cpp, streams | engine | engine to llama.cpp |\n|---|---|---:|---:|---:|---:|---:|\n",
    );
    for model in models {
        let of_model: Vec<&Speed> = speeds.iter().filter(|speed| speed.model == model).collect();
        let mut rows: Vec<(&str, usize, usize, usize)> = Vec::new();
        for speed in &of_model {
            let row = (
                speed.work,
                speed.sequences,
                speed.prompt_tokens,
                speed.tokens,
            );
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        for row in rows {
            let find = |by: By| {
                let found = of_model.iter().find(|speed| {
                    speed.by == by
                        && row
                            == (
                                speed.work,
                                speed.sequences,
                                speed.prompt_tokens,
                                speed.tokens,
                            )
                });
                found.map(|speed| speed.median())
            };
            let pool = find(By::Llama(Layout::Pool));
            let streams = find(By::Llama(Layout::Streams));
            let engine = find(By::Engine);
            let best = pool.into_iter().chain(streams).fold(0.0, f64::max);
            let ratio = engine.map(|engine| engine / best);
            let (work, sequences, prompt, tokens) = row;
            let work = if tokens == 0 {
                format!("{work} {prompt}")
            } else {
                format!("{work} {tokens} after {prompt}")
            };
            let cells =
                [pool, streams, engine, ratio].map(|value| value.map_or(String::new(), figure));
            writeln!(
                text,
                "| {model} | {work} | {sequences} | {} |",
                cells.join(" | ")
            )
            .expect("a string takes all");
        }
    }
    text
}

/// Runs, a row for each load and server, each number the median of the rounds.
pub fn runs(runs: &[Run]) -> String {
    let mut text = String::from(
        "| load | server | tok/s | all decoding | TTFT p50 / p99 | TPOT p50 | ITL p50 / p99 / max | fairness | prompt tokens computed | cpu | RSS | errors |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for group in groups(runs) {
        let of =
            |number: &dyn Fn(&Run) -> f64| median(group.iter().map(|run| number(run)).collect());
        let maybe = |number: &dyn Fn(&Run) -> Option<f64>| {
            let values: Vec<f64> = group.iter().filter_map(|run| number(run)).collect();
            if values.is_empty() {
                String::new()
            } else {
                figure(median(values))
            }
        };
        let computed = |run: &Run| {
            run.summary
                .prompts
                .computed()
                .map(|computed| computed as f64)
        };
        let prompts = format!(
            "{} of {}",
            maybe(&computed),
            of(&|run| run.summary.prompts.tokens as f64)
        );
        let cells = [
            figure(of(&|run| run.summary.tokens_per_second)),
            maybe(&|run| run.summary.decode_per_second),
            format!(
                "{} / {} ms",
                figure(of(&|run| run.summary.ttft_ms.p50)),
                figure(of(&|run| run.summary.ttft_ms.p99))
            ),
            format!("{} ms", figure(of(&|run| run.summary.tpot_ms.p50))),
            format!(
                "{} / {} / {} ms",
                figure(of(&|run| run.summary.itl_ms.p50)),
                figure(of(&|run| run.summary.itl_ms.p99)),
                figure(of(&|run| run.summary.itl_ms.max))
            ),
            format!("{:.3}", of(&|run| run.summary.fairness)),
            prompts,
            maybe(&|run| run.summary.cost.server_seconds),
            maybe(&|run| run.summary.cost.server_peak_mib),
            group
                .iter()
                .map(|run| run.summary.failed())
                .sum::<usize>()
                .to_string(),
        ];
        writeln!(
            text,
            "| {} | {} | {} |",
            group[0].load,
            group[0].server,
            cells.join(" | ")
        )
        .expect("a string takes all");
    }
    text
}

/// Runs of the same load on the same server, in the order of the first of each.
fn groups(runs: &[Run]) -> Vec<Vec<&Run>> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let same = |group: &&mut Vec<&Run>| {
            let first = group[0];
            (&first.model, &first.load, &first.server) == (&run.model, &run.load, &run.server)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// A number with three digits that mean something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
