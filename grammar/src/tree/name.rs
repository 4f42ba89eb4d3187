//! Names of fields: words, and in brackets extensions and types of an `Any`.

use std::ops::Range;

use super::Reader;
use crate::ast::{Name, NameKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::span::Span;

impl Reader<'_> {
    /// Reads a name if one is next; of one in brackets that is none, reports that and gives nothing inside.
    #[allow(clippy::option_option, reason = "no name, and a name that is reported")]
    pub(super) fn name(&mut self) -> Option<Option<Name>> {
        if let Some(word) = self.cursor.identifier() {
            return Some(Some(Name {
                kind: NameKind::Plain(self.cursor.slice(word.clone()).to_owned()),
                span: self.span(word),
            }));
        }
        let (parts, whole) = self.cursor.bracketed()?;
        Some(self.bracketed(&parts, whole))
    }

    /// Joins the parts of a name in brackets; reports what is no name of an extension or message type.
    fn bracketed(&mut self, parts: &[Range<usize>], whole: Range<usize>) -> Option<Name> {
        let span = self.span(whole);
        let mut text = String::new();
        let mut end = 0;
        for part in parts {
            let piece = self.cursor.slice(part.clone());
            let apart = !text.is_empty() && part.start > end;
            if apart && !text.ends_with(['.', '/']) && !piece.starts_with(['.', '/']) {
                let place = Span::new(self.file, end..part.start);
                self.bad_name(span, place, "a space may stand only beside `.` and `/`");
                return None;
            }
            text.push_str(piece);
            end = part.end;
        }
        match name_kind(&text) {
            Ok(kind) => Some(Name { span, kind }),
            Err(why) => {
                self.bad_name(span, span, why);
                None
            }
        }
    }

    fn bad_name(&mut self, whole: Span, place: Span, why: &str) {
        let message = format!(
            "`{}` is no name of an extension or message type",
            self.slice(whole)
        );
        self.report(
            Diagnostic::error(&syntax::BAD_BRACKET_NAME, place, message)
                .label(why)
                .hint("write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`"),
        );
    }
}

/// Tells what a name in brackets names, or what is wrong with it.
fn name_kind(text: &str) -> Result<NameKind, &'static str> {
    let Some((prefix, name)) = text.rsplit_once('/') else {
        return match full_name(text) {
            true => Ok(NameKind::Extension(text.to_owned())),
            false if text.is_empty() => Err("the brackets are empty"),
            false => Err("expected words of letters, digits and `_` with `.` between"),
        };
    };
    let percent = |at: usize| {
        prefix
            .as_bytes()
            .get(at + 1..at + 3)
            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    if prefix.is_empty() {
        return Err("no URL prefix before the `/`");
    }
    if prefix.starts_with('/') {
        return Err("the URL prefix begins with `/`");
    }
    // Written without the spaces, `//` and `/*` would be read as comments of other languages.
    if prefix
        .split('/')
        .skip(1)
        .any(|part| part.is_empty() || part.starts_with('*'))
    {
        return Err("a part of the URL prefix is empty or begins with `*`");
    }
    if !prefix.match_indices('%').all(|(at, _)| percent(at)) {
        return Err("`%` must be followed by two hexadecimal digits");
    }
    if !full_name(name) {
        return Err("expected a message type's full name after the last `/`");
    }
    Ok(NameKind::Any {
        prefix: prefix.to_owned(),
        type_name: name.to_owned(),
    })
}

/// Tells whether the text is identifiers with dots between.
fn full_name(text: &str) -> bool {
    text.split('.').all(|part| {
        part.bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
