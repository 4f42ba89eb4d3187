//! Names of models: `org/repo`, optionally with a colon and a quantization or file.

use std::{fmt, path::Path, str::FromStr};

/// A model in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    /// Repository, written as `org/repo`.
    pub(crate) repository: String,
    /// Quantization such as `Q4_K_M`, or a file of the repository.
    pub(crate) wanted: Option<String>,
}

/// Prefixes of names that were copied from a browser.
const HOSTS: [&str; 4] = [
    "https://huggingface.co/",
    "https://hf.co/",
    "huggingface.co/",
    "hf.co/",
];

/// File extensions of local sources: a path with one of them is not a model name.
const SERVED_ENDINGS: [&str; 6] = [".gguf", ".onnx", ".pbtxt", ".json", ".gmar", ".mar"];

impl ModelName {
    /// Parses a path that has the form of a model name; `None` otherwise.
    pub(crate) fn from_path(path: &Path) -> Option<Self> {
        let name: Self = path.to_str()?.parse().ok()?;
        let is_file = SERVED_ENDINGS
            .iter()
            .any(|ending| name.repository.ends_with(ending));
        (!is_file).then_some(name)
    }
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = HOSTS.iter().find_map(|host| text.strip_prefix(host));
        let name = name.unwrap_or(text);
        let split = name.split_once(':');
        let (repository, wanted) =
            split.map_or((name, None), |(name, wanted)| (name, Some(wanted)));
        // The hub allows no other characters, and the folders of the cache contain the names.
        let is_part = |part: &str| {
            let is_known = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
            !part.is_empty()
                && !part.starts_with(['.', '-'])
                && !part.contains("--")
                && !part.contains("..")
                && part.chars().all(is_known)
        };
        let is_name = repository
            .split_once('/')
            .is_some_and(|(owner, model)| is_part(owner) && is_part(model));
        if !is_name || wanted.is_some_and(str::is_empty) {
            return Err(format!(
                "`{text}` is not a model name: expected `org/repo`, `org/repo:Q4_K_M` or \
                 `org/repo:file.gguf`"
            ));
        }
        Ok(Self {
            repository: repository.to_owned(),
            wanted: wanted.map(str::to_owned),
        })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        match &self.wanted {
            Some(wanted) => write!(f, ":{wanted}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_parts_and_paths_do_not_pass_for_them() {
        for (text, repository, wanted) in [
            ("Qwen/Qwen3-0.6B-GGUF", "Qwen/Qwen3-0.6B-GGUF", None),
            ("a/b:Q8_0", "a/b", Some("Q8_0")),
            ("a/b:sub/m-Q8_0.gguf", "a/b", Some("sub/m-Q8_0.gguf")),
            ("https://huggingface.co/a/b", "a/b", None),
            ("hf.co/a/b:Q2_K", "a/b", Some("Q2_K")),
        ] {
            let name = ModelName::from_path(Path::new(text)).expect(text);
            assert_eq!(
                (&*name.repository, name.wanted.as_deref()),
                (repository, wanted)
            );
        }
        for text in [
            "model",
            "./a/b",
            "../b",
            "a/b/c",
            "/a/b",
            "a/",
            "a/b:",
            "a/..",
            "a--b/c",
            "a/b c",
            "models/m.gguf",
            "graphs/graph.pbtxt",
            "~/b",
            "a/-b",
        ] {
            assert_eq!(ModelName::from_path(Path::new(text)), None, "{text}");
        }
    }
}
