//! What a path under `/v2/models` names. Names of graphs can have slashes, so paths are read from
//! their ends.

/// What of a graph is asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ModelQuestion {
    Metadata,
    Ready,
    Config,
    Statistics,
    Tracing,
    Infer,
}

/// The name and the version of a graph; no version where the path has none.
pub(super) fn versioned(path: &str) -> (&str, &str) {
    match path.rsplit_once("/versions/") {
        Some((name, version)) if !version.contains('/') => (name, version),
        _ => (path, ""),
    }
}

/// Reads a path under `/v2/models`: the name of a graph, its version, which is empty where the path
/// has none, and what is asked.
pub(super) fn read(path: &str) -> (&str, &str, ModelQuestion) {
    let ends = [
        ("/ready", ModelQuestion::Ready),
        ("/config", ModelQuestion::Config),
        ("/stats", ModelQuestion::Statistics),
        ("/trace/setting", ModelQuestion::Tracing),
        ("/infer", ModelQuestion::Infer),
    ];
    let mut found = ends.into_iter();
    let found = found.find_map(|(end, asked)| Some((path.strip_suffix(end)?, asked)));
    let (path, asked) = found.unwrap_or((path, ModelQuestion::Metadata));
    let (name, version) = versioned(path);
    (name, version, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_their_ends() {
        for (path, name, version, asked) in [
            ("a", "a", "", ModelQuestion::Metadata),
            ("a/b/ready", "a/b", "", ModelQuestion::Ready),
            ("a/versions/1/infer", "a", "1", ModelQuestion::Infer),
            (
                "a/versions/b/c",
                "a/versions/b/c",
                "",
                ModelQuestion::Metadata,
            ),
            ("ready/trace/setting", "ready", "", ModelQuestion::Tracing),
        ] {
            assert_eq!(read(path), (name, version, asked), "{path}");
        }
    }
}
