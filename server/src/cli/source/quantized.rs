//! Quantized copies of models, in a cache of their own. A child process writes them, because a
//! damaged file may end it.

use std::{
    env,
    fmt::Display,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use graphmill_llm::{trial::this_program, weights};
use ring::digest::{SHA256, digest};

use crate::{
    cli::{quantize::QUANTIZING, user_folder},
    hub::{
        hex,
        progress::{self, ProgressGuard},
    },
};

/// Files beside a model that its copy needs, too.
const COMPANIONS: [&str; 2] = ["chat_template.jinja", "generation_config.json"];

/// Returns a model file with weights of this type: the model itself if its weights have as many
/// bits, else a copy.
pub(super) fn ensure(model: &Path, kind: &str) -> Result<PathBuf, String> {
    let bits = |kind: &str| kind.chars().find(char::is_ascii_digit);
    let now = weights::type_of(model).map_err(|error| error.to_string())?;
    if let Some(now) = now.filter(|now| bits(now) == bits(kind)) {
        let shown = model.display();
        tracing::info!("`{shown}` is served as it is: its weights are {now}");
        return Ok(model.to_owned());
    }
    let shown = model.display();
    let failed =
        |error: std::io::Error| format!("cannot store a quantized copy of `{shown}`: {error}");
    let folder = folder(model).map_err(failed)?;
    fs::create_dir_all(&folder).map_err(failed)?;
    let stem = model.file_stem().unwrap_or_default().to_string_lossy();
    let copy = folder.join(format!("{stem}-{kind}.gguf"));
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if !copy.is_file() {
        // Incomplete files of a process that was killed.
        for entry in fs::read_dir(&folder).map_err(failed)?.flatten() {
            if entry.path().extension().is_some_and(|end| end == "part") {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        write(model, &copy, kind)?;
        link_companions(model, &folder).map_err(failed)?;
    }
    tracing::info!("the weights are {kind}: `{}`", copy.display());
    Ok(copy)
}

/// Returns the folder for copies of a model. It changes when the file changes.
fn folder(model: &Path) -> std::io::Result<PathBuf> {
    let cache = user_folder("XDG_CACHE_HOME", ".cache").unwrap_or_else(env::temp_dir);
    let found = fs::metadata(model)?;
    let state = (
        model.canonicalize()?,
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
    );
    let sum = digest(&SHA256, format!("{state:?}").as_bytes());
    let digits = hex(&sum.as_ref()[..8]);
    Ok(cache.join("graphmill/quantized").join(digits))
}

fn write(model: &Path, copy: &Path, kind: &str) -> Result<(), String> {
    let failed =
        |why: &dyn Display| format!("cannot quantize `{}` to {kind}: {why}", model.display());
    let mut command = Command::new(this_program().map_err(|error| failed(&error))?);
    command
        .arg("quantize")
        .args([model, copy])
        .arg(kind)
        // Quantization runs on CPUs.
        .env("CUDA_VISIBLE_DEVICES", "-1")
        .env("GGML_NO_BACKTRACE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = command.spawn().map_err(|error| failed(&error))?;
    tracing::info!("quantizing `{}` to {kind}", model.display());
    let (_told, mut last) = (ProgressGuard::quantizing(), String::new());
    let output = process.stderr.take().into_iter();
    let lines = output.flat_map(|output| BufReader::new(output).lines());
    for line in lines.map_while(Result::ok) {
        let percent = line.strip_prefix(QUANTIZING);
        match percent.and_then(|rest| rest.trim_end_matches('%').trim().parse().ok()) {
            Some(percent) => progress::reached(percent),
            None => last = line,
        }
    }
    let status = process.wait().map_err(|error| failed(&error))?;
    if status.success() {
        return Ok(());
    }
    Err(match last.strip_prefix("error: ").unwrap_or(&last) {
        "" => failed(&"the process ended"),
        why => failed(&why),
    })
}

/// Links files that belong to the model into the folder of its copy.
fn link_companions(model: &Path, folder: &Path) -> std::io::Result<()> {
    let Some(home) = model.canonicalize()?.parent().map(Path::to_owned) else {
        return Ok(());
    };
    for entry in fs::read_dir(&home)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_projector = name.starts_with("mmproj") && name.ends_with(".gguf");
        let link = folder.join(&*name);
        if (is_projector || COMPANIONS.contains(&&*name)) && !link.exists() {
            symlink(&path, link)?;
        }
    }
    Ok(())
}
