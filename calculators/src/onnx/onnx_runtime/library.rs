//! The shared library of ONNX Runtime. A process loads one, and keeps it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::error::Error as _;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ort::LoadDynamicError;
use ort::environment::Environment;
use ort::logging::LogLevel;

/// Environment variable that names the library. Programs pass its value to [`use_library`].
pub const LIBRARY_VARIABLE: &str = "ORT_DYLIB_PATH";

/// Path of the library; if it is not set, the system searches for the library.
static NAMED: OnceLock<PathBuf> = OnceLock::new();
/// State of the loaded library for the whole process. `None` before it is loaded.
static LOADED: Mutex<Option<Environment>> = Mutex::new(None);

/// Sets the path of the library. It must be called before a model is loaded; later calls have no
/// effect.
pub fn use_library(path: PathBuf) {
    NAMED.get_or_init(|| path);
}

/// Returns the library, loaded by the first call. After a failure, the next call tries again.
pub(super) fn environment() -> Result<Environment, String> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(environment) = &*loaded {
        return Ok(environment.clone());
    }
    let path = NAMED.get().cloned();
    let path = path.unwrap_or_else(|| format!("{DLL_PREFIX}onnxruntime{DLL_SUFFIX}").into());
    // The crate trusts a library that has the expected function, and may panic.
    let made = catch_unwind(|| load(&path))
        .unwrap_or_else(|_| Err("it does not do what its version promises".to_owned()));
    let environment = made.map_err(|error| {
        let path = path.display();
        if NAMED.get().is_some() {
            format!("cannot load ONNX Runtime from `{path}`, which `{LIBRARY_VARIABLE}` names: {error}")
        } else {
            format!("cannot load ONNX Runtime: searched the system's libraries for `{path}`, because `{LIBRARY_VARIABLE}` is not set: {error}")
        }
    })?;
    Ok(loaded.insert(environment).clone())
}

fn load(path: &Path) -> Result<Environment, String> {
    let builder = ort::init_from(path).map_err(|error| match error {
        LoadDynamicError::Dlopen { error, .. } => {
            // The source of the error has the system's message.
            let said = error.source().map(ToString::to_string);
            said.unwrap_or_else(|| error.to_string())
        }
        LoadDynamicError::MissingApi { .. } => "it is another library".to_owned(),
        LoadDynamicError::InvalidVersionString => "cannot read its version".to_owned(),
        LoadDynamicError::BadVersion { version_str, .. } => format!(
            "it is of version {version_str}, but 1.{} is the oldest supported one",
            ort::MINOR_VERSION
        ),
    })?;
    let environment = builder
        .with_name("graphmill")
        .with_telemetry(false)
        .with_logger(Arc::new(log))
        .build()
        .map_err(|error| error.to_string())?;
    environment.set_log_level(LogLevel::Warning);
    Ok(environment)
}

/// Logs a message of the library.
fn log(level: LogLevel, _category: &str, _id: &str, at: &str, message: &str) {
    match level {
        LogLevel::Fatal | LogLevel::Error => tracing::error!(at, "ONNX Runtime: {message}"),
        LogLevel::Warning => tracing::warn!(at, "ONNX Runtime: {message}"),
        LogLevel::Info | LogLevel::Verbose => tracing::debug!(at, "ONNX Runtime: {message}"),
    }
}
