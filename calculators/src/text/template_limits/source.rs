//! Limits on the text of a template.
//!
//! minijinja limits the depth of brackets and statements, but not chains of operators, filters,
//! attributes and `elif`. Each link of a chain makes its tree one level deeper.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Maximum size of a template, in bytes. Those of well-known models have at most 20 kB.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of tokens in a tag. Those of well-known models have at most 50.
const MAX_TOKENS: usize = 1_000;
/// Maximum number of `elif` branches of an `if`.
const MAX_ELIFS: usize = 250;
/// Maximum number of macros and `call` blocks, as each can hold those before it.
const MAX_MACROS: usize = 250;

/// The place where a template exceeds a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuch {
    /// Line in the template, counted from 1.
    pub(crate) line: usize,
    /// Description of the exceeded limit, with the column.
    pub(crate) message: String,
}

/// Checks a template before it is parsed.
pub(crate) fn check(template: &str, syntax: &SyntaxConfig) -> Result<(), TooMuch> {
    let too_much = |at: Span, of: &str| {
        Err(TooMuch {
            line: at.start_line.into(),
            message: format!("column {}: {of}", at.start_col + 1),
        })
    };
    if template.len() > MAX_BYTES {
        return Err(TooMuch {
            line: 1,
            message: format!("a template can have at most {MAX_BYTES} bytes"),
        });
    }
    let mut tag = Span::default();
    let (mut in_tag, mut macros) = (0, 0);
    // The number of branches of each open `if`.
    let mut elifs = Vec::new();
    // Invalid text fails later, where it is parsed.
    for (token, span) in tokenize(template, false, syntax.clone()).map_while(Result::ok) {
        match token {
            Token::VariableStart | Token::BlockStart => {
                (tag, in_tag) = (span, 0);
                continue;
            }
            Token::VariableEnd | Token::BlockEnd | Token::TemplateData(_) => continue,
            Token::Ident(name) if in_tag == 0 => match name {
                "if" => elifs.push(0),
                "elif" => {
                    elifs.last_mut().into_iter().for_each(|count| *count += 1);
                    if elifs.last().is_some_and(|count| *count > MAX_ELIFS) {
                        return too_much(tag, &format!("`if` can have at most {MAX_ELIFS} `elif`"));
                    }
                }
                "endif" => {
                    elifs.pop();
                }
                "macro" | "call" => macros += 1,
                _ => {}
            },
            _ => {}
        }
        in_tag += 1;
        if in_tag > MAX_TOKENS {
            return too_much(
                tag,
                &format!("a tag can have at most {MAX_TOKENS} names, numbers, texts and signs"),
            );
        }
        if macros > MAX_MACROS {
            return too_much(
                tag,
                &format!("a template can have at most {MAX_MACROS} macros and `call` blocks"),
            );
        }
    }
    Ok(())
}
