//! The text format 0.0.4 that every scraper reads, converted from the registry's `OpenMetrics`.
//!
//! The readers of Go's `expfmt`, which many tools use whatever the content type is, refuse a whole
//! scrape for one unknown thing: a type `info`, a sample whose family has another name, a line
//! after `# EOF`.

use axum::http::{HeaderMap, header};

/// Media type of the text format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Media type of the format `OpenMetrics`.
pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns true if a scraper accepts `OpenMetrics`, and does not prefer the text format.
pub(super) fn wants_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get_all(header::ACCEPT)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
            (media_type, weight.unwrap_or(1.0))
        });
    let (mut openmetrics, mut text) = (0.0_f32, 0.0_f32);
    for (media_type, weight) in accepted {
        match media_type.as_str() {
            "application/openmetrics-text" => openmetrics = openmetrics.max(weight),
            "text/plain" => text = text.max(weight),
            _ => {}
        }
    }
    openmetrics > 0.0 && openmetrics >= text
}

/// Start of an exemplar. In the value of a label, a quotation mark always has a backslash before
/// it.
const EXEMPLAR: &str = " # {trace_id=\"";

/// Converts a scrape in `OpenMetrics` to the text format.
pub(super) fn from_openmetrics(scrape: &str) -> String {
    let mut out = String::with_capacity(scrape.len() + scrape.len() / 8);
    // The help comes before the type, which determines the family's name.
    let mut help = None;
    for line in scrape.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            // Samples in the text format have no exemplars.
            let sample = line.split_once(EXEMPLAR).map_or(line, |(sample, _)| sample);
            out.extend([sample, "\n"]);
            continue;
        };
        match comment.split_once(' ') {
            Some(("HELP", said)) => help = said.split_once(' '),
            Some(("TYPE", said)) => {
                let Some((family, kind)) = said.split_once(' ') else {
                    continue;
                };
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    other => ("", other),
                };
                if let Some((_, help)) = help.take().filter(|(of, _)| *of == family) {
                    out.extend(["# HELP ", family, suffix, " ", help, "\n"]);
                }
                out.extend(["# TYPE ", family, suffix, " ", kind, "\n"]);
            }
            // Units (`# UNIT`) are in the names, and `# EOF` is not used.
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(accept: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().expect("a value"));
        wants_openmetrics(&headers)
    }

    #[test]
    fn openmetrics_is_for_those_who_name_it() {
        assert!(wants("application/openmetrics-text"));
        assert!(wants(
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        ));
        for accept in [
            "*/*",
            "text/plain",
            "",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.3,text/plain;q=0.7",
        ] {
            assert!(!wants(accept), "{accept}");
        }
        assert!(!wants_openmetrics(&HeaderMap::new()));
    }

    #[test]
    fn families_have_the_names_and_types_of_their_samples() {
        let scrape = "# HELP a_seconds Took.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\na_seconds_count 1\n\
                      # HELP b Done.\n# TYPE b counter\nb_total{x=\"# TYPE \"} 2\n\
                      # HELP c Version.\n# TYPE c info\nc_info{v=\"1\"} 1\n\
                      # HELP d Any.\n# TYPE d unknown\nd{x=\" # {trace_id=\\\"\"} 1 # {trace_id=\"4b\"} 0.5\n# EOF\n";
        let text = "# HELP a_seconds Took.\n# TYPE a_seconds histogram\na_seconds_count 1\n\
                    # HELP b_total Done.\n# TYPE b_total counter\nb_total{x=\"# TYPE \"} 2\n\
                    # HELP c_info Version.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n\
                    # HELP d Any.\n# TYPE d untyped\nd{x=\" # {trace_id=\\\"\"} 1\n";
        assert_eq!(from_openmetrics(scrape), text);
    }
}
