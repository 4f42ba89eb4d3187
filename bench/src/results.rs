//! Rows of what was measured, as a table in Markdown and as a JSON file.

use std::{
    env, fs, io,
    path::Path,
    process::Command,
    thread::available_parallelism,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::load::stats::median;

/// The named values of one measurement, in the order of their columns. A table leaves lists out.
pub(crate) type Row = Map<String, Value>;

/// Everything that one call of the bench measured.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Machine, time and command line of the measurement.
    about: Value,
    rows: Vec<Row>,
}

impl Results {
    /// Describes the machine and begins without rows.
    pub(crate) fn new() -> Self {
        let rows = Vec::new();
        Self {
            about: about(),
            rows,
        }
    }

    /// Adds a row, given as an object.
    pub(crate) fn add(&mut self, row: Value) {
        if let Value::Object(row) = row {
            self.rows.push(row);
        }
    }

    /// Writes everything to a file and makes its folder.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, serde_json::to_vec_pretty(self)?)
    }

    /// Returns the rows as a table in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut columns: Vec<&str> = Vec::new();
        for (name, value) in self.rows.iter().flatten() {
            if !value.is_array() && !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let names = columns.iter().map(|name| name.replace('_', " "));
        let rules = format!("|{}\n", "---|".repeat(columns.len()));
        let rows = self.rows.iter().map(|row| {
            let cells = columns.iter().map(|name| row.get(*name).map(cell));
            line(cells.map(Option::unwrap_or_default).collect())
        });
        let head = [line(names.collect()), rules].into_iter();
        head.chain(rows).collect()
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => figure(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

/// Writes a number with three significant digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A row of the medians of the numbers of some rounds, which it lists as `rounds`. What is no number
/// is that of the first round.
pub(crate) fn medians(rounds: &[Row]) -> Row {
    let mut row = rounds.first().cloned().unwrap_or_default();
    for (name, value) in &mut row {
        let numbers = rounds.iter().filter_map(|round| round[name].as_f64());
        if value.is_number() {
            *value = json!(median(numbers.collect()));
        }
    }
    row.insert("rounds".to_owned(), json!(rounds));
    row
}

/// The numbers of our rounds divided by those of theirs: the median, with the least and the most
/// where there are several rounds.
pub(crate) fn ratios(ours: &[Row], theirs: &[Row]) -> Row {
    let ratio = |name: &String| {
        let pairs = ours.iter().zip(theirs);
        let ratios = pairs.filter_map(|(ours, theirs)| {
            let theirs = theirs[name].as_f64().filter(|number| *number > 0.0)?;
            Some(ours[name].as_f64()? / theirs)
        });
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        match ratios.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            [least, .., most] => {
                let middle = figure(median(ratios.clone()));
                json!(format!(
                    "{middle} ({} to {})",
                    figure(*least),
                    figure(*most)
                ))
            }
        }
    };
    let names = ours.iter().take(1).flat_map(Map::keys);
    names.map(|name| (name.clone(), ratio(name))).collect()
}

/// Describes the machine, the time and the command line.
fn about() -> Value {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let values = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut values = values.filter(|(key, _)| key.trim() == name);
        values.next().map_or("", |(_, value)| value.trim())
    };
    let flags = field("flags").split_whitespace();
    let vectors = flags.filter(|flag| flag.starts_with("avx") || flag.starts_with("amx"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let commit = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .output();
    let commit = commit.map_or_else(|_| Vec::new(), |said| said.stdout);
    json!({
        "time": now.map_or(0, |now| now.as_secs()),
        "processor": field("model name"),
        "processors": available_parallelism().map_or(1, usize::from),
        "instructions": vectors.collect::<Vec<_>>(),
        "kernel": kernel.trim(),
        "commit": String::from_utf8_lossy(&commit).trim(),
        "command": env::args().collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(server: &str, speed: f64, answers: u32) -> Row {
        let row = json!({"server": server, "speed": speed, "answers": answers, "cached": null});
        row.as_object().cloned().expect("an object")
    }

    #[test]
    fn medians_and_ratios_are_of_the_same_rounds() {
        let ours = [1.0, 4.0, 2.0].map(|speed| round("ours", speed, 7));
        let theirs = [2.0, 4.0, 1.0].map(|speed| round("theirs", speed, 7));
        let row = medians(&ours);
        assert_eq!(
            (&row["server"], &row["speed"]),
            (&json!("ours"), &json!(2.0))
        );
        assert_eq!(row["rounds"].as_array().map(Vec::len), Some(3));
        let row = ratios(&ours, &theirs);
        assert_eq!(row["speed"], json!("1.00 (0.50 to 2.00)"));
        assert_eq!(row["cached"], Value::Null);
        assert_eq!(ratios(&ours[..1], &theirs)["speed"], json!(0.5));
    }

    #[test]
    fn tables_have_a_column_for_each_name() {
        let mut results = Results::new();
        results.add(json!({"load": "chat", "tokens": 3, "ttft_ms": 123.4, "rounds": []}));
        results.add(json!({"load": "short", "errors": 0.5}));
        assert_eq!(
            results.table(),
            "| load | tokens | ttft ms | errors |\n|---|---|---|---|\n\
             | chat | 3 | 123 |  |\n| short |  |  | 0.50 |\n"
        );
    }
}
