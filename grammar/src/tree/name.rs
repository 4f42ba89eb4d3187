//! Names in brackets: extensions and types of an `Any`.

use pest::iterators::Pair;

use super::Reader;
use crate::ast::{Name, NameKind};
use crate::codes::syntax;
use crate::diag::Diagnostic;
use crate::span::Span;
use crate::text_format::Rule;

impl Reader<'_> {
    /// Reads the name of an extension or message type.
    pub(super) fn bracketed(&self, pair: Pair<'_, Rule>) -> Name {
        let span = self.span_of(&pair);
        let (mut prefix, mut full_name) = (None, String::new());
        for inner in pair.into_inner() {
            match inner.as_rule() {
                Rule::prefix => prefix = Some(compact(inner.as_str())),
                Rule::full_name => full_name = compact(inner.as_str()),
                _ => {}
            }
        }
        let kind = match prefix {
            Some(prefix) => NameKind::Any {
                prefix,
                type_name: full_name,
            },
            None => NameKind::Extension(full_name),
        };
        Name { span, kind }
    }

    /// Reports text that is not the name of an extension or message type.
    pub(super) fn damaged_bracketed(&mut self, pair: Pair<'_, Rule>) -> Option<Name> {
        let span = self.span_of(&pair);
        let mut text = String::new();
        let mut end = 0;
        let parts = pair.into_inner();
        for part in parts.filter(|it| it.as_rule() == Rule::url_part) {
            let place = part.as_span();
            let apart = !text.is_empty() && place.start() > end;
            if apart && !text.ends_with(['.', '/']) && !part.as_str().starts_with(['.', '/']) {
                let place = self.span(end..place.start());
                self.bad_name(span, place, "a space may stand only beside `.` and `/`");
                return None;
            }
            text.push_str(part.as_str());
            end = place.end();
        }
        self.bad_name(span, span, why_no_name(&text));
        None
    }

    fn bad_name(&mut self, whole: Span, place: Span, why: &str) {
        let message = format!(
            "`{}` is not the name of an extension or message type",
            self.slice(whole)
        );
        self.report(
            Diagnostic::error(&syntax::BAD_BRACKET_NAME, place, message)
                .label(why)
                .hint("write `[package.Type.ext]` or `[type.googleapis.com/package.Type]`"),
        );
    }
}

/// Returns the text without spaces and comments.
fn compact(text: &str) -> String {
    let lines = text.lines();
    let code = lines.map(|line| line.split_once('#').map_or(line, |(code, _)| code));
    code.flat_map(str::split_whitespace).collect()
}

/// Finds the mistake in a name in brackets.
fn why_no_name(text: &str) -> &'static str {
    let Some((prefix, _)) = text.rsplit_once('/') else {
        return match text {
            "" => "the brackets are empty",
            _ => "expected words of letters, digits and `_` with `.` between",
        };
    };
    let is_percent = |after: &str| {
        let hex = after.as_bytes().get(..2);
        hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    // Without the spaces, `//` and `/*` would be read as comments of other languages.
    let is_comment = |part: &str| part.is_empty() || part.starts_with('*');
    if prefix.is_empty() {
        "no URL prefix before the `/`"
    } else if prefix.starts_with('/') {
        "the URL prefix begins with `/`"
    } else if prefix.split('/').skip(1).any(is_comment) {
        "a part of the URL prefix is empty or begins with `*`"
    } else if !prefix.split('%').skip(1).all(is_percent) {
        "`%` must be followed by two hexadecimal digits"
    } else {
        "expected a message type's full name after the last `/`"
    }
}
