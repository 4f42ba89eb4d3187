//! Tables of two samples of a server.

use std::fmt::Write as _;

use serde_json::Value;

use super::sample::Sample;

/// Formats the activity of a server, with rates since `before`.
pub(super) fn format(now: &Sample, before: &Sample, url: &str) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let uptime = now.status["uptime_seconds"].as_u64().unwrap_or(0);
    let mut shown = format!(
        "Graphmill {} at {url}, up {}:{:02}:{:02}\n",
        text(&now.status["version"]),
        uptime / 3_600,
        uptime / 60 % 60,
        uptime % 60
    );
    let embedding = embedding_engines(now, before, seconds);
    for rows in [engines(now, before, seconds), embedding] {
        if rows.len() > 1 {
            shown.push_str(&aligned(&rows));
        }
    }
    shown.push_str(&aligned(&graphs(now, before, seconds)));
    match &now.sessions {
        Ok(open) => shown.push_str(&sessions(open)),
        // Older servers have no such list.
        Err(message) => {
            let _ = writeln!(shown, "\nno sessions are shown: {message}");
        }
    }
    shown
}

/// Formats the oldest open sessions, which the server lists first, and the number of others.
fn sessions(open: &Value) -> String {
    /// Number of sessions that fit below the other tables.
    const MOST: usize = 10;
    let listed = open["sessions"].as_array().into_iter().flatten();
    let mut rows = head(["SESSION", "GRAPH", "AGE", "WHY"]);
    for session in listed.take(MOST) {
        rows.push(vec![
            text(&session["id"]),
            text(&session["graph"]),
            format!("{:.1} s", number(session, "age_ms") / 1e3),
            short(&text(&session["why"])),
        ]);
    }
    if rows.len() == 1 {
        return String::new();
    }
    let mut shown = aligned(&rows);
    let total = open["total"].as_u64().unwrap_or(0) as usize;
    if let Some(more) = total.checked_sub(rows.len() - 1).filter(|more| *more > 0) {
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "and {more} more");
    }
    shown
}

/// Shortens a text to what fits beside a table.
fn short(text: &str) -> String {
    const CHARACTERS: usize = 100;
    text.chars().take(CHARACTERS).collect()
}

type TableRow = Vec<String>;

fn head<const N: usize>(names: [&str; N]) -> Vec<TableRow> {
    vec![names.map(str::to_owned).to_vec()]
}

fn engines(now: &Sample, before: &Sample, seconds: f64) -> Vec<TableRow> {
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
        let earlier = same(before, "engines", engine);
        let rate = |key: &str| rate(engine, earlier, key, seconds);
        let total = number(engine, "kv_cells_total").max(1.0);
        let used = number(engine, "kv_cells_used") / total * 100.0;
        let ttft = now.ttft_median(&text(&engine["graph"]), before);
        rows.push(vec![
            text(&engine["model"]),
            text(&engine["state"]),
            text(&engine["sequences_running"]),
            text(&engine["sequences_waiting"]),
            rate("generated_tokens"),
            rate("prompt_tokens"),
            format!("{used:.0} %"),
            ttft.map_or("-".to_owned(), |ttft| format!("{:.0} ms", ttft * 1e3)),
            text(&engine["failed_steps"]),
        ]);
    }
    rows
}

fn embedding_engines(now: &Sample, before: &Sample, seconds: f64) -> Vec<TableRow> {
    let mut rows = head([
        "ENGINE",
        "STATE",
        "REQUESTS",
        "TEXTS/S",
        "TOKENS/S",
        "FAILED STEPS",
    ]);
    for engine in list(now, "embedding_engines") {
        let earlier = same(before, "embedding_engines", engine);
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

fn graphs(now: &Sample, before: &Sample, seconds: f64) -> Vec<TableRow> {
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

/// Returns the progress or the error of a graph that does not answer.
fn note(graph: &Value) -> String {
    let loading = &graph["loading"];
    if loading.is_object() {
        let percent = loading["percent"].as_u64();
        let percent = percent.map_or(String::new(), |percent| format!(" {percent} %"));
        let seconds = number(loading, "seconds");
        return format!("{}{percent}, {seconds:.0} s", text(&loading["stage"]));
    }
    short(graph["reason"].as_str().unwrap_or(""))
}

fn list<'a>(sample: &'a Sample, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    sample.status[key].as_array().into_iter().flatten()
}

/// Returns the entry of an earlier sample about the same engine.
fn same<'a>(before: &'a Sample, list_key: &str, engine: &Value) -> Option<&'a Value> {
    let is_same = |it: &&Value| it["graph"] == engine["graph"] && it["model"] == engine["model"];
    list(before, list_key).find(is_same)
}

/// Formats the growth of a counter per second. A counter that was reset counts from zero.
fn rate(now: &Value, earlier: Option<&Value>, key: &str, seconds: f64) -> String {
    let count = number(now, key);
    let earlier = earlier.map_or(count, |earlier| number(earlier, key));
    let start = if count < earlier { 0.0 } else { earlier };
    format!("{:.1}", (count - start) / seconds)
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or(0.0)
}

/// Formats a value on one line, without control characters.
fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().filter(|c| !c.is_control()).collect()
}

/// Aligns columns. Numbers are aligned to the right.
fn aligned(rows: &[TableRow]) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_sessions_are_shown_with_what_they_wait_for() {
        let session = |id: u32| json!({ "id": id.to_string(), "graph": "chat", "age_ms": 61_250, "why": "`LLM` waits for\x1b[31m a slot" });
        let listed: Vec<Value> = (0..12).map(session).collect();
        let shown = sessions(&json!({ "sessions": listed, "total": 300 }));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 13, "{shown}");
        assert!(lines[1].starts_with("SESSION"), "{shown}");
        let first = "0        chat   61.2 s  `LLM` waits for[31m a slot";
        assert_eq!(lines[2], first, "{shown}");
        assert_eq!(lines[12], "and 290 more");
        assert_eq!(sessions(&json!({ "sessions": [], "total": 0 })), "");
    }
}
