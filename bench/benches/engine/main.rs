//! Measures the engine and prints a table: `cargo bench --workspace --bench engine`, with a word of
//! a group's name to measure only that.

mod burst;
mod compile;
mod executors;
mod hops;
mod parse;
mod sessions;

use graphmill_bench::report::Report;

type Measure = fn(&Report);

fn main() {
    let report = Report::from_args();
    let groups: [(&str, Measure); 6] = [
        ("hops", hops::measure),
        ("sessions", sessions::measure),
        ("parse", parse::measure),
        ("compile", compile::measure),
        ("executors", executors::measure),
        ("burst", burst::measure),
    ];
    for (name, measure) in groups {
        if report.wants(name) {
            measure(&report);
        }
    }
}
