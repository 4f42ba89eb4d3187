//! Conversion of Lark grammars to regular expressions, which can be enforced at any place of a
//! text, also within a string of JSON. Grammars with recursive rules have none.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice::Iter;

/// Maximum size of an expression, in bytes.
const LONGEST: usize = 12 << 10;
/// Maximum depth of nested groups and rules.
const MOST_LEVELS: usize = 64;
/// Expressions of the terminals that grammars can import.
const COMMON: [(&str, &str); 16] = [
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[0-9A-Fa-f]"),
    ("INT", "[0-9]+"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("DECIMAL", r"(?:[0-9]+\.[0-9]*|\.[0-9]+)"),
    (
        "NUMBER",
        r"(?:(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?)",
    ),
    ("LCASE_LETTER", "[a-z]"),
    ("UCASE_LETTER", "[A-Z]"),
    ("LETTER", "[A-Za-z]"),
    ("WORD", "[A-Za-z]+"),
    ("CNAME", "[_A-Za-z][_A-Za-z0-9]*"),
    ("ESCAPED_STRING", r#""(?:[^"\\\n]|\\.)*""#),
    ("WS_INLINE", r"[ \t]+"),
    ("WS", r"[ \t\f\r\n]+"),
    ("NEWLINE", r"(?:\r?\n)+"),
    ("LF", r"\n"),
];

/// The reason why a grammar has no expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lacking {
    /// The text is not a valid grammar.
    Broken(String),
    /// The grammar may be valid, but no expression describes its texts, or it has signs that are
    /// not supported.
    Expression,
}

use Lacking::{Broken, Expression};

type LarkResult<T> = Result<T, Lacking>;

/// Returns the regular expression of the texts that a grammar describes.
pub(super) fn expression(grammar: &str) -> LarkResult<String> {
    let mut grammar = Grammar::read(grammar)?;
    grammar.rule("start")
}

/// A word of a grammar.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    Name(String),
    /// A text or a regular expression, as a regular expression.
    Expression(String),
    Sign(char),
}

#[derive(Default)]
struct Grammar {
    rules: BTreeMap<String, Vec<Word>>,
    /// Expressions of rules; `None` while a rule is being converted, to detect recursion.
    written: BTreeMap<String, Option<String>>,
    /// Depth of the current group.
    level: usize,
}

type LarkWords<'a> = Peekable<Iter<'a, Word>>;

impl Grammar {
    fn read(grammar: &str) -> LarkResult<Self> {
        let mut read = Self::default();
        let mut last = None;
        for line in grammar.lines() {
            let words = words(line)?;
            match &words[..] {
                [] => {}
                // Ignored texts between terminals are not part of expressions.
                [Word::Sign('%'), Word::Name(kind), names @ ..] if kind == "import" => {
                    let [
                        Word::Name(library),
                        Word::Sign('.'),
                        Word::Name(name),
                        alias @ ..,
                    ] = names
                    else {
                        return Err(Expression);
                    };
                    let common = COMMON.iter().find(|(common, _)| common == name);
                    let (_, common) = common.ok_or(Expression)?;
                    let alias = match alias {
                        [] => name,
                        [Word::Sign('>'), Word::Name(alias)] => alias,
                        _ => return Err(Expression),
                    };
                    if library != "common" {
                        return Err(Expression);
                    }
                    let word = Word::Expression((*common).to_owned());
                    read.rules.insert(alias.clone(), vec![word]);
                }
                [Word::Sign('|'), ..] => {
                    let rule = last.as_ref().and_then(|last| read.rules.get_mut(last));
                    let why = || Broken("an alternative belongs to no rule".to_owned());
                    rule.ok_or_else(why)?.extend(words);
                }
                _ => {
                    let colon = words.iter().position(|word| *word == Word::Sign(':'));
                    let colon = colon.ok_or(Expression)?;
                    let (head, rule) = words.split_at(colon);
                    let head = match head {
                        [Word::Sign('?' | '!'), head @ ..] | head => head,
                    };
                    // The priority of a terminal follows a point.
                    let ([Word::Name(name)] | [Word::Name(name), Word::Sign('.'), _]) = head else {
                        return Err(Expression);
                    };
                    read.rules.insert(name.clone(), rule[1..].to_vec());
                    last = Some(name.clone());
                }
            }
        }
        Ok(read)
    }

    fn rule(&mut self, name: &str) -> LarkResult<String> {
        if let Some(written) = self.written.get(name) {
            return written.clone().ok_or(Expression);
        }
        self.written.insert(name.to_owned(), None);
        let words = self.rules.get(name);
        let missing = || Broken(format!("there is no rule `{name}`"));
        let words = words.ok_or_else(missing)?.clone();
        let mut words = words.iter().peekable();
        let written = self.alternatives(&mut words)?;
        if words.next().is_some() {
            return Err(Broken(format!("a bracket of `{name}` was not opened")));
        }
        if written.len() > LONGEST {
            return Err(Expression);
        }
        self.written.insert(name.to_owned(), Some(written.clone()));
        Ok(written)
    }

    /// Converts a group. Fails if it is nested too deep or too long.
    fn alternatives(&mut self, words: &mut LarkWords<'_>) -> LarkResult<String> {
        if self.level == MOST_LEVELS {
            return Err(Expression);
        }
        self.level += 1;
        let mut all = self.sequence(words)?;
        while words.next_if_eq(&&Word::Sign('|')).is_some() {
            all.push('|');
            all.push_str(&self.sequence(words)?);
            if all.len() > LONGEST {
                return Err(Expression);
            }
        }
        self.level -= 1;
        Ok(format!("(?:{all})"))
    }

    fn sequence(&mut self, words: &mut LarkWords<'_>) -> LarkResult<String> {
        let mut sequence = String::new();
        while let Some(word) = words.next_if(|word| !matches!(word, Word::Sign('|' | ')' | ']'))) {
            let one = match word {
                Word::Name(name) => self.rule(name)?,
                Word::Expression(text) => format!("(?:{text})"),
                Word::Sign(open @ ('(' | '[')) => {
                    let (close, count) = if *open == '(' { (')', "") } else { (']', "?") };
                    let all = self.alternatives(words)?;
                    let why = || Broken(format!("a bracket is not closed: expected `{close}`"));
                    words.next_if_eq(&&Word::Sign(close)).ok_or_else(why)?;
                    all + count
                }
                // This is the name of an alternative.
                Word::Sign('>') => {
                    let why = || Broken("an alternative has no name after `->`".to_owned());
                    words.next().ok_or_else(why)?;
                    continue;
                }
                Word::Sign(_) => return Err(Expression),
            };
            sequence.push_str(&one);
            let is_repeated = |word: &&Word| matches!(word, Word::Sign('?' | '*' | '+'));
            if let Some(Word::Sign(sign)) = words.next_if(is_repeated) {
                sequence.push(*sign);
            }
            if sequence.len() > LONGEST {
                return Err(Expression);
            }
        }
        Ok(sequence)
    }
}

/// Divides a line, without its comment, into words. Fails if it has unsupported signs.
fn words(line: &str) -> LarkResult<Vec<Word>> {
    let (mut words, mut rest) = (Vec::new(), line.trim_start());
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '#' => break,
            '/' if rest.starts_with("//") => break,
            '"' | '/' => {
                let end = closing(rest, c);
                let end = end.ok_or_else(|| Broken(format!("a `{c}` is not closed")))?;
                let behind = &rest[end..];
                let flags = behind.len() - behind.trim_start_matches(|c| "ims".contains(c)).len();
                let (text, flags) = (&rest[1..end - 1], &behind[..flags]);
                let text = if c == '"' {
                    let text = serde_json::from_str::<String>(&rest[..end]);
                    literal(&text.map_err(|_| Expression)?)
                } else {
                    text.replace("\\/", "/")
                };
                words.push(Word::Expression(match flags {
                    "" => text,
                    flags => format!("(?{flags}:{text})"),
                }));
                end + flags.len()
            }
            '-' => {
                words.push(Word::Sign('>'));
                rest.starts_with("->").then_some(2).ok_or(Expression)?
            }
            '|' | '(' | ')' | '[' | ']' | '?' | '*' | '+' | ':' | '.' | '%' | '!' => {
                words.push(Word::Sign(c));
                1
            }
            _ => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
                let length = name.len();
                words.push(Word::Name(name));
                (length > 0).then_some(length).ok_or(Expression)?
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

/// Returns the regular expression of a literal text.
fn literal(text: &str) -> String {
    let one = |c: char| {
        if c.is_ascii_alphanumeric() || c == ' ' {
            c.to_string()
        } else {
            format!("\\x{{{:X}}}", u32::from(c))
        }
    };
    text.chars().map(one).collect()
}

/// Returns the position after a text between two signs.
fn closing(text: &str, sign: char) -> Option<usize> {
    let mut is_escaped = true;
    let end = text.find(|c| {
        let ends = c == sign && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    Some(end + 1)
}

#[cfg(test)]
mod tests {
    use graphmill_engine::Files;
    use graphmill_llm::Constraint;
    use graphmill_llm::backend::scripted::Script;
    use serde_json::{Value, json};

    use super::{Lacking, expression};
    use crate::llm::LanguageModel;

    /// The grammar that Codex sends, but for a comment.
    const PATCH: &str = r#"start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF
// What a line ends with.
%import common.LF
"#;

    #[test]
    fn texts_are_held_to_grammars_within_json() {
        let engine =
            LanguageModel::scripted(Script::default(), None, &Files::default()).expect("a model");
        let engine = engine.engine();
        let sums = "?start: sum\n?sum: product\n    | product SP /[+-]/ SP product -> sum\nproduct.2: NUMBER [\"*\"i INT]\nSP: \" \"\n%import common.INT\n%import common.INT -> NUMBER\n";
        for (grammar, right, wrong) in [
            (
                PATCH,
                &[
                    "*** Begin Patch\n*** Add File: a \"b\".rs\n+fn main() {\n+\tlet c = '\\\\';\n*** End Patch",
                    "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@ f\n-x\n+y\n z\n*** End of File\n*** Delete File: c\n*** End Patch\n",
                ][..],
                &[
                    "*** Begin Patch\n*** End Patch",
                    "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
                    "*** Begin Patch\n*** Remove File: a\n*** End Patch\n",
                ][..],
            ),
            ("start: a // a\n# b\na: \"x\" # a", &["x"], &["", "xx"]),
            (
                sums,
                &["1", "1 + 2*3", "10 - 4"],
                &["", "1+2", "1 + 2 + 3", "a"],
            ),
        ] {
            let expression = expression(grammar).expect("contains no rule in itself");
            let schema = json!({"type": "string", "pattern": format!("^(?:{expression})$")});
            let compiled = engine
                .compile(&Constraint::JsonSchema(schema))
                .expect("compiles");
            let is_held = |text: &&str| {
                let mut followed = compiled.text();
                followed.push(&Value::from(*text).to_string());
                followed.can_end()
            };
            for text in right {
                assert!(is_held(text), "{text}");
            }
            for text in wrong {
                assert!(!is_held(text), "{text}");
            }
        }
    }

    #[test]
    fn grammars_without_an_expression_have_none() {
        for grammar in [
            "",
            "start: missing",
            "begin: \"a\"",
            "start: (\"a\"",
            "start: (((",
            "start: \"a\")",
            "start: [\"a\" | \"b\"",
            "start: \"a",
            "| \"a\"",
        ] {
            let lacking = expression(grammar).expect_err(grammar);
            assert!(
                matches!(lacking, Lacking::Broken(_)),
                "{grammar}: {lacking:?}"
            );
        }
        let none = Err(Lacking::Expression);
        for grammar in [
            "start: \"(\" start? \")\"",
            "start: a\na: b\nb: a | \"x\"",
            "start: WORD\n%ignore \" \"\nWORD: /a/",
            "start: \"a\"~2",
            "start: \"a\"..\"z\"",
            "start: a{b}",
            "%import other.LF\nstart: LF",
            "start - \"a\"",
        ] {
            assert_eq!(expression(grammar), none, "{grammar}");
        }
        let doubled: Vec<_> = (0..20)
            .map(|at| format!("a{at}: a{0} a{0}\n", at + 1))
            .collect();
        let doubled = doubled.concat();
        let doubled = format!("start: a0\n{doubled}a20: \"a\"");
        assert_eq!(expression(&doubled), none);
        // Deeper than any stack, and longer than any memory.
        let groups = format!("start: {}\"a\"", "(".repeat(400_000));
        let links: Vec<_> = (0..100_000)
            .map(|at| format!("a{at}: a{}\n", at + 1))
            .collect();
        let chain = format!("start: a0\n{}a100000: \"a\"", links.concat());
        let long = format!("a: \"{}\"\n", "x".repeat(10_000));
        let choices = format!("start: a{}\n{long}", " | a".repeat(1_000_000));
        for grammar in [groups, chain, choices] {
            assert_eq!(expression(&grammar), none);
        }
    }
}
