//! The tables of loads.

use std::fmt::Write as _;

use super::figure;
use crate::{
    load::{
        stats::median,
        summary::{Arrivals, Summary},
    },
    results::Run,
};

/// Runs, a row for each load and server, each number the median of the rounds.
pub(super) fn runs(runs: &[Run]) -> String {
    let heads = [
        "model",
        "load",
        "server",
        "tok/s",
        "all decoding",
        "good requests/s",
        "TTFT p50 / p99",
        "TPOT p50",
        "ITL p50 / p99 / max",
        "fairness",
        "prompt tokens: all / new / computed",
        "cells",
        "cpu s",
        "RSS MiB",
        "errors",
    ];
    let mut text = format!(
        "| {} |\n|---|---|---|{}\n",
        heads.join(" | "),
        "---:|".repeat(heads.len() - 3)
    );
    for group in groups(runs) {
        let summaries: Vec<&Summary> = group.iter().map(|run| &run.summary).collect();
        let first = group[0];
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            first.model,
            first.load,
            first.server,
            cells(&summaries).join(" | ")
        )
        .expect("a string takes all");
        if let Some(cells) = arrival_cells(&summaries) {
            writeln!(text, "| | arrivals in it | | {} |", cells.join(" | "))
                .expect("a string takes all");
        }
    }
    text
}

/// The numbers of a load.
fn cells(summaries: &[&Summary]) -> [String; 12] {
    let of = |number: fn(&Summary) -> f64| {
        figure(median(
            summaries.iter().map(|summary| number(summary)).collect(),
        ))
    };
    let maybe = |number: fn(&Summary) -> Option<f64>| {
        let values: Vec<f64> = summaries
            .iter()
            .filter_map(|summary| number(summary))
            .collect();
        if values.is_empty() {
            "-".to_owned()
        } else {
            figure(median(values))
        }
    };
    [
        of(|summary| summary.tokens_per_second),
        maybe(|summary| summary.decode_per_second),
        of(|summary| summary.good_per_second),
        format!(
            "{} / {} ms",
            of(|summary| summary.ttft_ms.p50),
            of(|summary| summary.ttft_ms.p99)
        ),
        format!("{} ms", of(|summary| summary.tpot_ms.p50)),
        format!(
            "{} / {} / {} ms",
            of(|summary| summary.itl_ms.p50),
            of(|summary| summary.itl_ms.p99),
            of(|summary| summary.itl_ms.max)
        ),
        format!(
            "{:.3}",
            median(summaries.iter().map(|summary| summary.fairness).collect())
        ),
        format!(
            "{} / {} / {}",
            of(|summary| summary.prompts.tokens as f64),
            of(|summary| summary.prompts.new as f64),
            maybe(|summary| summary.prompts.computed().map(|tokens| tokens as f64))
        ),
        maybe(|summary| summary.cost.kv_cells.map(|cells| cells as f64)),
        maybe(|summary| summary.cost.server_seconds),
        maybe(|summary| summary.cost.server_peak_mib),
        summaries
            .iter()
            .map(|summary| summary.failed())
            .sum::<usize>()
            .to_string(),
    ]
}

/// The numbers of what arrived while others were decoding: the streams' rates and gaps before and
/// meanwhile, and the times to the first token, meanwhile and alone.
fn arrival_cells(summaries: &[&Summary]) -> Option<[String; 12]> {
    let arrivals: Option<Vec<&Arrivals>> = summaries
        .iter()
        .map(|summary| summary.arrivals.as_ref())
        .collect();
    let arrivals = arrivals.filter(|arrivals| !arrivals.is_empty())?;
    let of = |number: fn(&Arrivals) -> f64| {
        figure(median(
            arrivals.iter().map(|arrivals| number(arrivals)).collect(),
        ))
    };
    let computed = |arrivals: &Arrivals| {
        arrivals
            .prompts
            .computed()
            .map_or(f64::NAN, |tokens| tokens as f64)
    };
    let mut cells: [String; 12] = Default::default();
    cells[0] = format!(
        "{} -> {} -> {}",
        of(|arrivals| arrivals.before_per_second),
        of(|arrivals| arrivals.during_per_second),
        of(|arrivals| arrivals.after_per_second)
    );
    let ttft = of(|arrivals| arrivals.ttft_ms.p50);
    let had_alone = |arrivals: &&Arrivals| arrivals.alone_ttft_ms.count > 0;
    if arrivals.iter().all(had_alone) {
        let gains: Option<Vec<f64>> = arrivals.iter().map(|arrivals| arrivals.gain).collect();
        cells[1] = gains.map_or_else(
            || "no gain: streams ended, use more `--max-tokens`".to_owned(),
            |gains| format!("gain {}", figure(median(gains))),
        );
        let alone = of(|arrivals| arrivals.alone_ttft_ms.p50);
        cells[3] = format!("{ttft} ms, alone {alone} ms");
    } else {
        cells[3] = format!("{ttft} ms");
    }
    cells[5] = format!(
        "p50 {} -> p50 / p99 / max {} / {} / {} ms",
        of(|arrivals| arrivals.before_itl_ms.p50),
        of(|arrivals| arrivals.during_itl_ms.p50),
        of(|arrivals| arrivals.during_itl_ms.p99),
        of(|arrivals| arrivals.during_itl_ms.max)
    );
    cells[7] = format!(
        "{} / {} / {}",
        of(|arrivals| arrivals.prompts.tokens as f64),
        of(|arrivals| arrivals.prompts.new as f64),
        figure(median(
            arrivals.iter().map(|arrivals| computed(arrivals)).collect()
        ))
    );
    Some(cells)
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

/// A column of numbers: its name, and where a run has it.
type Column = (&'static str, fn(&Run) -> f64);

/// Where two servers had the same loads: the first one's numbers divided by the second one's, as
/// the median of the rounds with the least and the most. Empty where there is only one server.
pub(super) fn ratios(runs: &[Run]) -> String {
    let columns: [Column; 7] = [
        ("tok/s", |run| run.summary.tokens_per_second),
        ("good requests/s", |run| run.summary.good_per_second),
        ("total time", |run| run.summary.seconds),
        ("TTFT p50", |run| run.summary.ttft_ms.p50),
        ("TPOT p50", |run| run.summary.tpot_ms.p50),
        ("ITL p99", |run| run.summary.itl_ms.p99),
        ("ITL max", |run| run.summary.itl_ms.max),
    ];
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = String::new();
    let groups = groups(runs);
    for (number, ours) in groups.iter().enumerate() {
        let same_load = |group: &&Vec<&Run>| {
            (&group[0].model, &group[0].load) == (&ours[0].model, &ours[0].load)
        };
        let Some(theirs) = groups[number + 1..].iter().find(same_load) else {
            continue;
        };
        if text.is_empty() {
            write!(
                text,
                "| model | {} to {} | {} |\n|---|---|",
                ours[0].server,
                theirs[0].server,
                names.join(" | ")
            )
            .expect("a string takes all");
            text.push_str(&"---:|".repeat(names.len()));
            text.push('\n');
        }
        let cells = columns.map(|(_, number)| {
            let pairs = ours
                .iter()
                .zip(theirs)
                .filter(|(_, theirs)| number(theirs) > 0.0);
            spread(
                pairs
                    .map(|(ours, theirs)| number(ours) / number(theirs))
                    .collect(),
            )
        });
        writeln!(
            text,
            "| {} | {} | {} |",
            ours[0].model,
            ours[0].load,
            cells.join(" | ")
        )
        .expect("a string takes all");
    }
    text
}

/// The middle of values, with the least and the most where they differ.
fn spread(values: Vec<f64>) -> String {
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    match values.len() {
        0 => String::new(),
        1 => figure(values[0]),
        _ => format!(
            "{} ({}-{})",
            figure(median(values)),
            figure(least),
            figure(most)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{drive::Sample, plan::Role, summary::Limits};

    fn run(server: &str, load: &str, round: usize, seconds: f64) -> Run {
        let sample = Sample {
            role: Role::Stream,
            actor: 0,
            sent: 0.0,
            pieces: vec![0.5 * seconds, seconds],
            ended: seconds,
            prompt_tokens: 100,
            cached_tokens: Some(90),
            new_tokens: 100,
            tokens: 2,
            error: None,
        };
        let limits = Limits {
            ttft_ms: 1e9,
            tpot_ms: 1e9,
        };
        Run {
            server: server.to_owned(),
            model: "m".to_owned(),
            load: load.to_owned(),
            round,
            summary: Summary::from_samples(&[sample], seconds, limits),
        }
    }

    #[test]
    fn ratios_pair_the_rounds_of_the_same_load() {
        let runs = [
            run("ours", "short 8", 0, 1.0),
            run("peer", "short 8", 0, 2.0),
            run("peer", "short 8", 1, 1.0),
            run("ours", "short 8", 1, 1.0),
            run("ours", "many 256", 0, 1.0),
        ];
        let text = ratios(&runs);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 3, "a load of one server has no ratio: {text}");
        assert!(rows[0].starts_with("| model | ours to peer | tok/s |"));
        assert!(
            rows[2].starts_with("| m | short 8 | 1.50 (1.00-2.00) |"),
            "{}",
            rows[2]
        );
        assert_eq!(ratios(&runs[..1]), "");
    }

    #[test]
    fn a_load_has_one_row_with_the_medians_of_its_rounds() {
        let rounds = [1.0, 4.0, 2.0].iter().enumerate();
        let measured: Vec<Run> = rounds
            .map(|(round, seconds)| run("ours", "short 1", round, *seconds))
            .collect();
        let text = runs(&measured);
        let row = text.lines().nth(2).expect("there is one");
        assert_eq!(text.lines().count(), 3);
        assert!(row.starts_with("| m | short 1 | ours | 1.00 |"), "{row}");
        assert!(row.contains("| 100 / 100 / 10.0 |"), "{row}");
        let columns = |line: &str| line.matches('|').count();
        assert!(
            text.lines().all(|line| columns(line) == columns(row)),
            "{text}"
        );
    }
}
