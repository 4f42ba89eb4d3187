//! Two looks at a server as tables.

use std::fmt::Write as _;

use serde_json::Value;

use super::sample::Sample;

/// Writes what a server does, at rates since `before`.
pub(super) fn of(now: &Sample, before: &Sample, url: &str) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let uptime = now.status["uptime_seconds"].as_u64().unwrap_or(0);
    let mut shown = format!(
        "Graphmill {} at {url}, up {}:{:02}:{:02}\n",
        text(&now.status["version"]),
        uptime / 3_600,
        uptime / 60 % 60,
        uptime % 60
    );
    let engines = engines(now, before, seconds);
    if engines.len() > 1 {
        shown.push_str(&aligned(&engines));
    }
    let embedding = embedding_engines(now, before, seconds);
    if embedding.len() > 1 {
        shown.push_str(&aligned(&embedding));
    }
    shown.push_str(&aligned(&graphs(now, before, seconds)));
    shown
}

type Row = Vec<String>;

fn head<const N: usize>(names: [&str; N]) -> Vec<Row> {
    vec![names.map(str::to_owned).to_vec()]
}

fn engines(now: &Sample, before: &Sample, seconds: f64) -> Vec<Row> {
    let mut rows = head([
        "ENGINE",
        "STATE",
        "RUNNING",
        "WAITING",
        "TOKENS/S",
        "PROMPT/S",
        "KV",
        "TTFT P50",
        "FAILED STEPS",
    ]);
    for engine in list(now, "engines") {
        let earlier = same(before, "engines", engine, "graph");
        let rate = |key: &str| rate(engine, earlier, key, seconds);
        let (used, total) = (
            number(engine, "kv_cells_used"),
            number(engine, "kv_cells_total"),
        );
        let ttft = now.ttft_median(&text(&engine["graph"]), before);
        rows.push(vec![
            text(&engine["model"]),
            text(&engine["state"]),
            text(&engine["sequences_running"]),
            text(&engine["sequences_waiting"]),
            rate("generated_tokens"),
            rate("prompt_tokens"),
            format!(
                "{:.0} %",
                if total > 0.0 {
                    used / total * 100.0
                } else {
                    0.0
                }
            ),
            ttft.map_or("-".to_owned(), |ttft| format!("{:.0} ms", ttft * 1e3)),
            text(&engine["failed_steps"]),
        ]);
    }
    rows
}

fn embedding_engines(now: &Sample, before: &Sample, seconds: f64) -> Vec<Row> {
    let mut rows = head([
        "ENGINE",
        "STATE",
        "REQUESTS",
        "TEXTS/S",
        "TOKENS/S",
        "FAILED STEPS",
    ]);
    for engine in list(now, "embedding_engines") {
        let earlier = same(before, "embedding_engines", engine, "graph");
        rows.push(vec![
            text(&engine["model"]),
            text(&engine["state"]),
            text(&engine["requests"]),
            rate(engine, earlier, "texts", seconds),
            rate(engine, earlier, "tokens", seconds),
            text(&engine["failed_steps"]),
        ]);
    }
    rows
}

fn graphs(now: &Sample, before: &Sample, seconds: f64) -> Vec<Row> {
    let mut rows = head(["GRAPH", "STATE", "OPEN", "REQUESTS/S", "ERRORS", "NOTE"]);
    for graph in list(now, "graphs") {
        let name = text(&graph["name"]);
        let requests = now.requests(&name);
        let since = (requests.all - before.requests(&name).all).max(0.0);
        rows.push(vec![
            name,
            text(&graph["state"]),
            text(&graph["open_sessions"]),
            format!("{:.1}", since / seconds),
            format!("{:.0}", requests.failed),
            note(graph),
        ]);
    }
    rows
}

/// What is to be said of a graph that does not answer.
fn note(graph: &Value) -> String {
    /// What fits beside a table.
    const CHARACTERS: usize = 60;
    let loading = &graph["loading"];
    if loading.is_object() {
        let percent = loading["percent"].as_u64();
        let percent = percent.map_or(String::new(), |percent| format!(" {percent} %"));
        let seconds = number(loading, "seconds");
        return format!("{}{percent}, {seconds:.0} s", text(&loading["stage"]));
    }
    graph["reason"]
        .as_str()
        .unwrap_or("")
        .chars()
        .take(CHARACTERS)
        .collect()
}

fn list<'a>(sample: &'a Sample, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    sample.status[key]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
}

/// The entry of an earlier look that is about the same.
fn same<'a>(before: &'a Sample, list_key: &str, entry: &Value, key: &str) -> Option<&'a Value> {
    list(before, list_key).find(|earlier| earlier[key] == entry[key])
}

/// A counter's growth a second. One that began again counts from zero.
fn rate(now: &Value, earlier: Option<&Value>, key: &str, seconds: f64) -> String {
    let count = number(now, key);
    let earlier = earlier.map_or(count, |earlier| number(earlier, key));
    let grown = if count < earlier {
        count
    } else {
        count - earlier
    };
    format!("{:.1}", grown / seconds)
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or(0.0)
}

/// A value on one line, without what a terminal would obey.
fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Columns of equal width; numbers stand right.
fn aligned(rows: &[Row]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut shown = String::from("\n");
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // Writing to a string cannot fail.
            let _ = if column < 2 || column + 1 == columns {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        shown.push_str(line.trim_end());
        shown.push('\n');
    }
    shown
}
