//! Bodies of POST requests: scanned once for the name of the graph and the deadline. The graph's
//! request node checks the other fields. Forms (`multipart/form-data`) become JSON, so that the
//! same code reads the fields of both.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::http::{HeaderMap, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::stream;
use graphmill_calculators::{http::dialect::Target, payload::JsonBody};
use graphmill_dialects::{bodies::completions::VECTORS, json::MAX_FIELDS, schema};
use graphmill_engine::block_on;
use multer::Multipart;
use serde_json::{Map, Value, json};

use crate::{
    bodies::Share,
    errors::{Cause, Failure, Result},
    http::request,
    kserve::wrong,
    servable::Servable,
};

/// Size above which a body is scanned outside of the threads that serve requests. Scanning this
/// many bytes takes less than a millisecond.
const INLINE_BYTES: usize = 256 << 10;

/// Field for the form of answers at `/generate`.
const GENERATE_FORM: &str = "generate_form";

/// A body that is a JSON object.
pub(super) struct ParsedBody {
    pub(super) bytes: Bytes,
    pub(super) json: Arc<JsonBody>,
}

impl ParsedBody {
    /// Scans a body that was read. `file` is the name of the file field that a form may have in
    /// this dialect.
    pub(super) async fn parse(
        headers: &HeaderMap,
        file: Option<&'static str>,
        bytes: Bytes,
        share: &Arc<Share>,
    ) -> Result<Self> {
        let bytes = as_json(headers, file, bytes, share).await?;
        let json = if bytes.len() > INLINE_BYTES {
            let bytes = bytes.clone();
            let scan = move || JsonBody::scan(bytes);
            share.beside(scan, "the body could not be parsed").await??
        } else {
            JsonBody::scan(bytes.clone())?
        };
        let json = Arc::new(json);
        Ok(Self { bytes, json })
    }

    /// Inserts the graph's name and version from the path. Refuses a body with others.
    pub(super) fn is_for(&mut self, name: &str, version: &str) -> Result<()> {
        for (field, said) in [
            ("model", name),
            ("model_name", name),
            ("model_version", version),
        ] {
            if self.json.get(field)?.is_some_and(|value| value != said) {
                let why = format_args!("expected `{said}`, as in the path");
                return Err(wrong(field, why));
            }
            self.insert(field, said.into());
        }
        Ok(())
    }

    /// Inserts a field into the body.
    pub(super) fn insert(&mut self, name: &str, value: Value) {
        if let Some(json) = Arc::get_mut(&mut self.json) {
            json.insert(name, value);
        }
    }

    /// Inserts the form of answers from the graph's configuration, if the dialect has a field for
    /// it that the body leaves out.
    pub(super) fn fill(&mut self, target: Option<Target>, graph: &Servable) {
        let endpoint = target.and_then(|target| schema::endpoint(target.dialect.endpoint()));
        if endpoint.is_some_and(|it| it.fields.contains_key(GENERATE_FORM))
            && let Some(form) = graph.generate_form()
            && !self.json.has(GENERATE_FORM)
        {
            self.insert(GENERATE_FORM, form.as_str().into());
        }
    }

    /// Returns the name of the field that holds the prompt.
    pub(super) fn prompt_field(&self) -> Option<&'static str> {
        let texts = [
            "messages",
            "prompt",
            "input",
            "inputs",
            "text_input",
            "file",
        ];
        let mut fields = VECTORS.into_iter().chain(texts);
        fields.find(|field| self.json.has(field))
    }

    /// Returns the value of `timeout`, which is in seconds. `None` if it is not a positive number;
    /// the graph refuses that.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let seconds = self.json.short("timeout").and_then(Value::as_f64);
        let seconds = seconds.filter(|seconds| *seconds > 0.0)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Returns the name of the graph in the body. Only this field is parsed for it.
    pub(super) fn model(&self) -> Result<&str> {
        let purpose = "it names the graph that answers";
        Err(match self.json.get("model")? {
            Some(Value::String(name)) if !name.is_empty() => return Ok(name),
            Some(Value::String(_)) => request::wrong("model", &format!("is empty: {purpose}")),
            None | Some(Value::Null) => request::missing("model", purpose),
            Some(_) => request::wrong("model", "is not a string").with_code("invalid_type"),
        })
    }
}

/// Suffix of field names that can occur several times in a form.
const LISTED: &str = "[]";

/// Returns the boundary of a form; `None` if the body is not a form.
///
/// # Errors
/// If a form has no boundary.
pub(in crate::http) fn boundary(headers: &HeaderMap) -> Result<Option<String>> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    match kind.map(multer::parse_boundary) {
        Some(Ok(boundary)) => Ok(Some(boundary)),
        Some(Err(multer::Error::NoBoundary)) => {
            let why = "the body is not a form: `boundary` is missing in `content-type`; leave that header to the client library";
            Err(Failure::new(Cause::BadRequest, why))
        }
        _ => Ok(None),
    }
}

/// Returns a body as JSON. A form becomes an object; its file field has the name `file`. `share` is
/// the request's share of the budget of bodies.
async fn as_json(
    headers: &HeaderMap,
    file: Option<&'static str>,
    body: Bytes,
    share: &Arc<Share>,
) -> Result<Bytes> {
    let Some(file) = file else {
        return Ok(body);
    };
    let Some(boundary) = boundary(headers)? else {
        return Ok(body);
    };
    let mut lease = share.lease();
    let encode = move || {
        let mut object = Map::new();
        // The whole body is in memory, so this does not block.
        for FormPart { name, bytes, .. } in block_on(parts(body, boundary))? {
            // Base64 makes a file a third larger, and it is in memory twice until it is written.
            lease.take(bytes.len() / 3 * 4 + name.len() + 8)?;
            add(&mut object, name, &bytes, file)?;
        }
        let json = Value::Object(object).to_string();
        Ok(lease.keeps(json.into()))
    };
    share.beside(encode, "the form could not be read").await?
}

/// Refuses a form of more than [`MAX_FIELDS`].
pub(in crate::http) fn too_many_fields() -> Failure {
    let why = format!("the body has more than {MAX_FIELDS} fields");
    Failure::new(Cause::BadRequest, why).with_code("too_many_fields")
}

/// A field of a form.
pub(in crate::http) struct FormPart {
    pub(in crate::http) name: String,
    /// Media type of a file; `None` for a text.
    pub(in crate::http) media_type: Option<String>,
    pub(in crate::http) bytes: Bytes,
}

/// Reads the fields of a form in order.
pub(in crate::http) async fn parts(body: Bytes, boundary: String) -> Result<Vec<FormPart>> {
    let refused = |error: multer::Error| {
        let why = format!("the body is not a form (multipart/form-data): {error}");
        Failure::new(Cause::BadRequest, why)
    };
    let whole = stream::iter([Ok::<_, Infallible>(body)]);
    let mut form = Multipart::new(whole, boundary);
    let mut parts = Vec::new();
    while let Some(part) = form.next_field().await.map_err(refused)? {
        if parts.len() == MAX_FIELDS {
            return Err(too_many_fields());
        }
        let name = part.name().unwrap_or_default().to_owned();
        let media_type = part.content_type().map(|it| it.essence_str().to_owned());
        let unsaid = || part.file_name().map(|_| String::new());
        parts.push(FormPart {
            name,
            media_type: media_type.or_else(unsaid),
            bytes: part.bytes().await.map_err(refused)?,
        });
    }
    Ok(parts)
}

fn add(object: &mut Map<String, Value>, name: String, bytes: &[u8], file: &str) -> Result<()> {
    if name == file {
        object.insert(name, STANDARD.encode(bytes).into());
        return Ok(());
    }
    let text = str::from_utf8(bytes).map_err(|_| {
        let failure = Failure::new(Cause::BadRequest, format!("`{name}` is not UTF-8 text"));
        failure.with_field(name.clone()).with_code("invalid_value")
    })?;
    let value = Some(text).filter(|_| schema::is_value(&name));
    let value = value.and_then(|text| serde_json::from_str(text).ok());
    let value = value.filter(|value: &Value| value.is_number() || value.is_boolean());
    let value = value.unwrap_or_else(|| text.into());
    let Some(list) = name.strip_suffix(LISTED) else {
        object.insert(name, value);
        return Ok(());
    };
    let entries = object.entry(list).or_insert_with(|| json!([]));
    if let Some(entries) = entries.as_array_mut() {
        entries.push(value);
    }
    Ok(())
}
