//! `GET` and `PUT /v3/graphs/{name}/file`: the text that a graph is made of, and another one in its
//! place.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use axum::{
    Json,
    extract::{Path as Named, Request, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;

use super::authoring;
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::asker::Asker,
    servable::{Servable, Servables, answers},
};

pub(super) async fn text(
    State(app): State<Arc<App>>,
    Named(name): Named<String>,
) -> Result<Response, Failure> {
    let servable = super::graph(&app, &name)?;
    let text = servable.text().ok_or_else(|| {
        let message = format!("no text of the graph `{name}` is known: it has not been loaded");
        Failure::new(Cause::NotFound, message)
    })?;
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((content_type, text.to_string()).into_response())
}

/// Writes a text over the file of a graph. The watch over files, or a reload, then serves it.
pub(super) async fn save(
    State(app): State<Arc<App>>,
    asker: Asker,
    Named(name): Named<String>,
    request: Request,
) -> Result<Response, Failure> {
    let audit = |outcome, reason| asker.audit("edit", &name, outcome, reason);
    if !app.options.graph_edits {
        let message = "graphs are not edited here: the server runs without `--allow_graph_edits`";
        audit("refused", Some(message));
        return Err(Failure::new(Cause::Forbidden, message));
    }
    let servables = app.servables();
    let servable = super::graph(&app, &name)?;
    let (parts, body) = request.into_parts();
    let body = app.read_body(&parts, body).await?;
    authoring::check_length("the text", &body)?;
    if body.trim_ascii().is_empty() {
        let message = "the body is empty: send the text of the graph";
        let failure = Failure::new(Cause::BadRequest, message);
        return Err(failure.with_code("missing_required_parameter"));
    }
    let text = String::from_utf8(body.into())
        .map_err(|_| Failure::new(Cause::BadRequest, "the text is not UTF-8"))?;
    // Compiling may take a while, and this thread serves requests.
    let saved = spawn_blocking(move || check_and_write(&servables, &servable, &text));
    let saved = saved.await;
    let saved = saved.unwrap_or_else(|_| Err(Failure::new(Cause::Panic, "the check failed")));
    match &saved {
        Ok(response) if response.status().is_success() => audit("done", None),
        Ok(_) => audit("failed", Some("the text does not compile")),
        Err(failure) => audit("failed", Some(&failure.message)),
    }
    saved
}

/// The answer is what is wrong with a text that was not written.
fn check_and_write(
    servables: &Servables,
    servable: &Servable,
    text: &str,
) -> Result<Response, Failure> {
    let name = servable.name();
    let gone = || {
        let message = format!("the graph `{name}` has no file that could be written over");
        Failure::new(Cause::NotFound, message)
    };
    // What a link names is written, not the link.
    let file = &servable.file().canonicalize().map_err(|_| gone())?;
    let compiled = servables.check_edit(servable, text);
    let Some(plan) = &compiled.plan else {
        return Ok(authoring::refused(&compiled));
    };
    answers(plan).map_err(|why| Failure::new(Cause::BadRequest, why))?;
    write(file, text).map_err(|error| {
        let message = format!("cannot write `{}`: {error}", file.display());
        Failure::new(Cause::Unavailable, message).with_code("not_written")
    })?;
    let saved = json!({
        "name": name,
        "file": file.display().to_string(),
        "diagnostics": authoring::diagnostics(&compiled),
    });
    Ok(Json(saved).into_response())
}

/// Puts a file with this text in the place of another one, so that no reader sees a part of it.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut new = NamedTempFile::new_in(file.parent().unwrap_or(Path::new("/")))?;
    new.as_file()
        .set_permissions(fs::metadata(file)?.permissions())?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}
