//! `config.properties` of TorchServe. Each key sets a flag of `serve`, or is logged as having no
//! effect. The command line and the environment take precedence.

use std::{collections::BTreeMap, env, ffi::OsString, path::Path};

use axum::http::Uri;
use clap::FromArgMatches as _;
use graphmill_engine::read_regular;
use java_properties::PropertiesIter;
use serde_json::{Map, Value};

use super::{
    ServeArguments,
    property_keys::{
        KEYS, METRICS, MODELS,
        Means::{Address, Flag, Nothing},
        OF_MODELS, REPOSITORY, key_of, known, names,
    },
};
use crate::cli::{command, mistakes, source::ModelFlags, variable};

/// The settings that a properties file adds to a command line.
#[derive(Debug, Default)]
pub(in crate::cli) struct PropertiesExpansion {
    /// Path of the file, for messages.
    pub(in crate::cli) file: String,
    /// The flags that were set, with their keys in the file.
    pub(in crate::cli) keys: Vec<(&'static str, &'static str)>,
    /// Warnings about keys without effect, for the log.
    pub(in crate::cli) warnings: Vec<String>,
}

/// Appends the flags of a properties file to a command line of `serve` that names one, by
/// `--ts_config` or as the file to serve.
pub(in crate::cli) fn expand(arguments: &mut Vec<OsString>) -> Result<PropertiesExpansion, String> {
    if arguments.get(1).is_none_or(|verb| verb != "serve") {
        return Ok(PropertiesExpansion::default());
    }
    let mut file = value_of("ts_config");
    let given = arguments.clone();
    for (at, argument) in given.iter().enumerate().skip(2) {
        let text = argument.to_string_lossy();
        let is_value = given[at - 1] == "--ts_config";
        if let Some(path) = text.strip_prefix("--ts_config=") {
            file = Some(path.into());
        } else if is_value || (text.ends_with(".properties") && !text.starts_with("--")) {
            file = Some(argument.clone());
        }
    }
    let Some(file) = file else {
        return Ok(PropertiesExpansion::default());
    };
    arguments.retain(|argument| *argument != file);
    arguments.retain(|argument| !argument.to_string_lossy().starts_with("--ts_config"));
    let file = Path::new(&file);
    let (flags, warnings) = flags_of(file)?;
    let warnings = warnings.iter().map(|why| in_file(file, why));
    let mut expanded = PropertiesExpansion {
        file: file.display().to_string(),
        warnings: warnings.collect(),
        keys: Vec::new(),
    };
    let is_given = |flag: &str| {
        let mut names = mistakes::flag_names(&given);
        names.any(|name| name == flag || (name, flag) == ("model_store", REPOSITORY))
    };
    for (flag, value) in flags {
        if !is_given(flag) && value_of(flag).is_none() {
            arguments.push(format!("--{flag}={value}").into());
            expanded.keys.extend(key_of(flag).map(|key| (flag, key)));
        }
    }
    Ok(expanded)
}

/// Checks a properties file as `serve` reads it. Returns warnings about keys without effect.
///
/// # Errors
/// The reason why `serve` refuses the file, a value in it, or the models that it names.
pub(in crate::cli) fn check(file: &Path) -> Result<Vec<String>, String> {
    let arguments = ["graphmill", "serve", "--ts_config"].map(OsString::from);
    let mut arguments = arguments.to_vec();
    arguments.push(file.into());
    let expanded = expand(&mut arguments)?;
    let mut command = command(false);
    let matches = command
        .try_get_matches_from_mut(&arguments)
        .map_err(|error| mistakes::in_short(&error, &command, &arguments, &expanded))?;
    let names_models = expanded.keys.iter().any(|(flag, _)| *flag == REPOSITORY);
    let given = matches.subcommand_matches("serve");
    if let Some(given) = given.filter(|_| names_models) {
        let serve = ServeArguments::from_arg_matches(given).map_err(|error| error.to_string())?;
        let source = serve.sources.resolve(given);
        source
            .and_then(|source| serve.sources.configuration(&source, &ModelFlags::default()))
            .map_err(|why| in_file(file, &why))?;
    }
    Ok(flags_of(file)?.1)
}

/// Names the file in a message about its contents.
fn in_file(file: &Path, why: &str) -> String {
    format!("`{}`: {why}", file.display())
}

/// Returns the flags that a file sets, and warnings about keys without effect.
fn flags_of(file: &Path) -> Result<(BTreeMap<&'static str, String>, Vec<String>), String> {
    let properties = read(file)?;
    let mut warnings = Vec::new();
    let flags = flags(&properties, &mut warnings).map_err(|why| in_file(file, &why))?;
    Ok((flags, warnings))
}

/// Returns the value of the environment variable of a flag.
fn value_of(flag: &str) -> Option<OsString> {
    variable(&format!("GRAPHMILL_{}", flag.to_ascii_uppercase()))
}

fn read(file: &Path) -> Result<BTreeMap<String, String>, String> {
    let shown = file.display();
    let text = read_regular(file).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let mut properties = BTreeMap::new();
    let read = PropertiesIter::new(&*text).read_into(|key, value| {
        properties.insert(key, value);
    });
    read.map_err(|error| format!("`{shown}` is not a properties file: {error}"))?;
    // TorchServe's own variables count if the file allows it.
    let allowed = properties.get("enable_envvars_config");
    if allowed.is_some_and(|it| it == "true") {
        for key in names(KEYS) {
            if let Ok(value) = env::var(format!("TS_{}", key.to_ascii_uppercase())) {
                properties.insert(key.to_owned(), value);
            }
        }
    }
    Ok(properties)
}

/// Returns the flags that properties set.
fn flags(
    properties: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<&'static str, String>, String> {
    let mut flags = BTreeMap::new();
    for (key, value) in properties {
        let value = value.trim();
        if key == MODELS {
            warn_of_models(value, warnings);
            continue;
        }
        match known(KEYS, key, value, warnings) {
            Some(Flag("models")) if matches!(value, "standalone" | "none" | "N/A" | "") => {}
            Some(Flag(flag)) => _ = flags.insert(*flag, value.to_owned()),
            Some(Address(host, port)) => {
                let (at, number) = address(value).map_err(|why| format!("`{key}`: {why}"))?;
                if host == port {
                    let has_colons = at.contains(':');
                    let at = if has_colons { format!("[{at}]") } else { at };
                    flags.insert(*host, format!("{at}:{number}"));
                } else {
                    flags.insert(*host, at);
                    flags.insert(*port, number.to_string());
                }
                if value.starts_with("https:") && !properties.contains_key("certificate_file") {
                    return Err(format!(
                        "`{key}` is https, but `certificate_file` is missing"
                    ));
                }
            }
            Some(Nothing(..)) | None => {}
        }
    }
    // An address that REST already has needs no listener of its own.
    if let Some(of_metrics) = flags.get(METRICS).and_then(|it| it.rsplit(':').next())
        && ["rest_port", "management_port"]
            .iter()
            .any(|port| flags.get(port).is_some_and(|it| it == of_metrics))
    {
        flags.remove(METRICS);
    }
    if flags.get("management_port") == flags.get("rest_port") {
        flags.remove("management_port");
        flags.remove("management_bind_address");
    }
    if let Some(size) = flags.get("max_body_bytes") {
        let size: usize = size
            .parse()
            .map_err(|_| format!("`max_request_size`: `{size}` is not a number of bytes"))?;
        flags.insert("max_bodies_bytes", size.max(MAX_BODIES_BYTES).to_string());
    }
    Ok(flags)
}

/// Default of `--max_bodies_bytes`, unless the largest body needs more.
const MAX_BODIES_BYTES: usize = 64 << 20;

fn warn_of_models(text: &str, warnings: &mut Vec<String>) {
    let models: BTreeMap<String, BTreeMap<String, Map<String, Value>>> =
        match serde_json::from_str(text) {
            Ok(models) => models,
            Err(error) => {
                let why = "expected JSON: models, their versions, and settings of each";
                return warnings.push(format!("`{MODELS}` has no effect: {why}: {error}"));
            }
        };
    for (key, value) in models.values().flat_map(BTreeMap::values).flatten() {
        known(OF_MODELS, key, &value.to_string(), warnings);
    }
    warnings.sort();
    warnings.dedup();
}

/// Returns the host and the port of an address such as `http://0.0.0.0:8080`.
fn address(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("expected an address such as `http://127.0.0.1:8080`, not `{text}`");
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let usual = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return Err(wrong()),
    };
    let host = uri.host().ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), uri.port_u16().unwrap_or(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Result<BTreeMap<&'static str, String>, String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.properties");
        std::fs::write(&file, text).expect("writable");
        let mut warnings = Vec::new();
        let properties = read(&file).expect("properties");
        (flags(&properties, &mut warnings), warnings)
    }

    #[test]
    fn keys_become_flags() {
        let (flags, warnings) = read_text(
            "# a comment\n\
             inference_address=http://0.0.0.0:8080\nmanagement_address=http://0.0.0.0:8081\n\
             grpc_inference_port: 7070\nmax_request_size=655350000\nenable_metrics_api=true\n\
             load_models=all\nmodel_store=store\nmax_response_size=6553500\n\
             metrics_address=http://[::1]:8082\n",
        );
        let expected = [
            ("enable_metrics_api", "true"),
            ("management_bind_address", "0.0.0.0"),
            ("management_port", "8081"),
            ("max_bodies_bytes", "655350000"),
            ("max_body_bytes", "655350000"),
            ("max_response_bytes", "6553500"),
            ("metrics_address", "[::1]:8082"),
            ("model_repository_path", "store"),
            ("models", "all"),
            ("port", "7070"),
            ("rest_bind_address", "0.0.0.0"),
            ("rest_port", "8080"),
        ];
        let expected = expected.map(|(flag, value)| (flag, value.to_owned()));
        assert_eq!((flags, warnings), (Ok(expected.into()), vec![]));
        let (flags, _) = read_text(
            "inference_address=http://[::1]\nmanagement_address=http://[::1]\nmetrics_address=http://[::1]\n",
        );
        let expected = [("rest_bind_address", "::1"), ("rest_port", "80")];
        assert_eq!(
            flags,
            Ok(expected
                .map(|(flag, value)| (flag, value.to_owned()))
                .into())
        );
    }

    #[test]
    fn keys_without_effect_are_told_and_wrong_values_refused() {
        let (flags, warnings) = read_text(
            "install_py_dep_per_model=true\nmax_responze_size=1\n\
             models={\\\n  \"a\": {\"1.0\": {\"defaultVersion\": true, \\\n    \"batchSize\": 2, \"batchsize\": 3}}}\n",
        );
        assert_eq!(flags, Ok(BTreeMap::new()));
        let said = [
            "no Python",
            "did you mean `max_response_size`",
            "`batchSize` has no effect: language models",
            "`defaultVersion` has no effect: the newest",
            "did you mean `batchSize`",
        ];
        for words in said {
            assert!(
                warnings.iter().any(|it| it.contains(words)),
                "{words}: {warnings:?}"
            );
        }
        assert_eq!(warnings.len(), said.len(), "{warnings:?}");
        assert!(read_text("models={").1[0].contains("expected JSON"));
        for (text, said) in [
            ("inference_address=8080", "expected an address"),
            ("inference_address=unix:/tmp/x", "expected an address"),
            (
                "inference_address=https://127.0.0.1:8443",
                "certificate_file",
            ),
            ("max_request_size=much", "not a number of bytes"),
        ] {
            let error = read_text(text).0.expect_err("refused");
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
