//! The table that a measurement prints: what was measured, and what it has to be.

use crate::{results::figure, samples::Samples};

/// The target for a number.
#[derive(Copy, Clone, Debug)]
pub enum Goal {
    /// The number is at most this.
    AtMost(f64),
    /// The number is at least this.
    AtLeast(f64),
    /// No target. The number helps to understand the others.
    None,
}

/// Prints results as rows of a Markdown table, those whose name contains a filter.
pub struct Report {
    filter: Option<String>,
}

impl Report {
    /// Takes the filter from the command line: its first argument that is no option.
    #[expect(clippy::print_stdout, reason = "the table is the program's output")]
    pub fn from_args() -> Self {
        let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
        println!("| what | fastest | median | unit | goal |");
        println!("|---|---:|---:|---|---|");
        Self { filter }
    }

    /// Returns `true` if the filter lets this group of measurements through.
    pub fn wants(&self, group: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| group.contains(filter.as_str()))
    }

    /// Prints a row of samples in nanoseconds, shown in `unit`, which is `per` nanoseconds.
    pub fn samples(&self, what: &str, samples: &Samples, (unit, per): (&str, f64), goal: Goal) {
        let (fastest, median) = (samples.fastest() / per, samples.median() / per);
        row(what, fastest, Some(median), unit, goal);
    }

    /// Prints a row of one number.
    pub fn number(&self, what: &str, value: f64, unit: &str, goal: Goal) {
        row(what, value, None, unit, goal);
    }
}

#[expect(clippy::print_stdout, reason = "the table is the program's output")]
fn row(what: &str, value: f64, median: Option<f64>, unit: &str, goal: Goal) {
    let median = median.map_or(String::new(), figure);
    let goal = match goal {
        Goal::AtMost(most) => format!("{} at most {most}", verdict(value <= most)),
        Goal::AtLeast(least) => format!("{} at least {least}", verdict(value >= least)),
        Goal::None => String::new(),
    };
    println!(
        "| {what} | {} | {median} | {unit} | {goal} |",
        figure(value)
    );
}

fn verdict(met: bool) -> &'static str {
    if met { "ok:" } else { "MISSED:" }
}
