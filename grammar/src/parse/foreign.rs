//! Files of other kinds: images, logs, programs, JSON. They get one diagnostic about their kind
//! instead of one for each line.

use crate::ast::{Field, File, ValueKind};
use crate::codes::{fields, syntax};
use crate::diag::Diagnostic;
use crate::graph;
use crate::suggest;

/// First bytes of files that are not text.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"GGUF", "a GGUF model"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "compressed data (gzip)"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe", UTF_16),
    (b"\xfe\xff", UTF_16),
];

const UTF_16: &str = "UTF-16 text";

/// Number of bytes that are examined for UTF-16.
const SAMPLE: usize = 512;

/// Returns the kind of a file whose bytes are certainly not UTF-8 text.
pub(crate) fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    let mut signatures = SIGNATURES.iter();
    let signature = signatures.find(|(signature, _)| bytes.starts_with(signature));
    signature.map(|(_, kind)| *kind).or_else(|| {
        let sample = &bytes[..bytes.len().min(SAMPLE)];
        let zeros = |first: usize| {
            let every_other = sample.iter().skip(first).step_by(2);
            every_other.filter(|&&byte| byte == 0).count()
        };
        let most = (sample.len() / 2 * 3 / 4).max(2);
        match (zeros(0) >= most, zeros(1) >= most) {
            (true, true) => Some("binary data"),
            (false, false) => None,
            _ => Some(UTF_16),
        }
    })
}

/// The diagnostic for a file of such a kind, at its beginning.
pub(crate) fn is_of_kind(kind: &str, place: crate::Span) -> Diagnostic {
    let message = format!("the file is {kind}, not a graph");
    let diagnostic = Diagnostic::error(&syntax::UNUSABLE_FILE, place, message);
    match kind {
        UTF_16 => diagnostic.hint("save the file as UTF-8"),
        "a GGUF model" => {
            diagnostic.hint("a graph names a model with `models_path`, in the options of a node")
        }
        _ => diagnostic,
    }
}

/// Maximum number of mistakes outside a graph's fields for each of these fields. Far more than
/// people make, and far fewer than a text of another kind contains.
const MAX_FOR_EACH: usize = 3;

/// Makes the single diagnostic of a text that is not a graph, from the mistakes found in it.
/// Returns `None` if the text may be meant as a graph.
pub(crate) fn recognize(text: &str, tree: &File, found: &[Diagnostic]) -> Option<Diagnostic> {
    if found.iter().any(|it| it.code == &syntax::TOO_DEEP) {
        return None;
    }
    let fields = tree.root.fields.iter();
    let known: Vec<&Field> = fields.filter(|it| is_of_graph(it)).collect();
    let outside = |diagnostic: &&Diagnostic| {
        let at = diagnostic.primary.span.start;
        // The fields are in the order of the file.
        let before = known.partition_point(|field| field.span.start <= at);
        let inside = before
            .checked_sub(1)
            .is_some_and(|last| at < known[last].span.end.max(known[last].span.start + 1));
        let code = diagnostic.code;
        // Unknown but valid fields say less than a syntax error. A comment of another language says
        // nothing.
        let counts = known.is_empty() || syntax::ALL.contains(&code);
        diagnostic.is_error() && !inside && counts && code != &syntax::FOREIGN_COMMENT
    };
    let mut strays = found.iter().filter(outside);
    let first = strays.next()?;
    let count = 1 + strays.count();
    let json = looks_like_json(text);
    if count <= MAX_FOR_EACH * known.len() || (count < 2 && !json) {
        return None;
    }
    let mut hint =
        "a graph is written in protobuf text format: `node { calculator: \"..\" }`".to_owned();
    let message = if json {
        hint += "; a configuration's name ends in `.json`";
        "not a graph file: this is JSON"
    } else if text.trim_start().starts_with('<') {
        "not a graph file: this looks like HTML or XML"
    } else {
        "not a graph file"
    };
    let diagnostic = Diagnostic::error(&fields::NOT_A_GRAPH, first.primary.span, message);
    let diagnostic = diagnostic.label("the first text that is not part of a graph");
    Some(diagnostic.hint(hint))
}

/// Returns `true` if a field has the name of a graph's field, or nearly so, and a value of the
/// right kind.
fn is_of_graph(field: &Field) -> bool {
    let Some(name) = field.name.as_plain() else {
        return false;
    };
    let near = || suggest::nearest(name, graph::field_names().iter().copied());
    let known = graph::field_names().iter().find(|known| **known == name);
    let takes_text = |name: &str| {
        matches!(
            name,
            "type" | "package" | "num_threads" | "max_queue_size" | "report_deadlock"
        ) || name.contains("_stream") && !name.ends_with("handler")
            || name.ends_with("side_packet")
    };
    let Some(name) = known.copied().or_else(near) else {
        return false;
    };
    match &field.value.value {
        ValueKind::Invalid => false,
        ValueKind::Message(_) => !takes_text(name),
        ValueKind::List(_) => true,
        _ => takes_text(name) && field.colon.is_some(),
    }
}

fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{FEFF}');
    let Some(inside) = text.strip_prefix(['{', '[']) else {
        return false;
    };
    inside.trim_start().starts_with(['"', '{', '[', ']', '}'])
}
