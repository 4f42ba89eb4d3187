//! Patterns of calls: the texts around names and arguments, as a model writes them.
//!
//! A pattern reads a call, and a grammar is made from it. `$` begins a place:
//!
//! | place | text |
//! |---|---|
//! | `$name` | name of the tool |
//! | `$numbered` | the same, as `functions.NAME:NUMBER`, which is the id of the call as well |
//! | `$id` | id of the call, which is dropped |
//! | `$json` | arguments as a JSON object |
//! | `$object`, `$llama`, `$cohere` | JSON object with name and arguments, under the keys of the family |
//! | `$parameters` | arguments one by one, each by the pattern of a parameter, up to the text behind it |
//! | `$python`, `$builtin` | call as in Python, with keywords; the latter of `NAME.call` |
//! | `$gemma` | arguments as Gemma writes objects |
//! | `$program` | rest of the text, for a tool that runs Python |
//! | `$harmony` | head of a message of Harmony to a tool |
//! | `$?TEXT` | text that is read where it comes, and not demanded |
//!
//! White space in a pattern stands for any or none. Marks behind the arguments may be missing.

/// A pattern in the form of the table of families.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    pub(super) call: &'static str,
    /// Texts before the first call and after the last one, if calls have a common section.
    pub(super) section: (&'static str, &'static str),
    pub(super) between: &'static str,
    /// Pattern of one of `$parameters`, with `$key` and `$value`. `$text` is `true` if the value is
    /// text and not JSON. `$cdata` is a value that can be in a CDATA section of XML.
    pub(super) parameter: &'static str,
    /// Text of the chat templates that teach this pattern, among those of its family.
    pub(super) taught_by: &'static str,
    /// True if nothing marks a call. It is then recognized by the name of a tool, and by its place
    /// before all text or after another call.
    pub(super) bare: bool,
    /// True if an answer has only one call.
    pub(super) single: bool,
}

/// A pattern that was divided into parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Parts before the first call, and after the last one.
    pub(super) open: Vec<SpellingPart>,
    pub(super) close: Vec<SpellingPart>,
    pub(super) call: Vec<SpellingPart>,
    pub(super) parameter: Parameter,
    pub(super) between: String,
    pub(super) bare: bool,
    pub(super) single: bool,
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpellingPart {
    /// Text for which many vocabularies have a token.
    Mark(String),
    Text(String),
    Maybe(String),
    Name,
    Numbered,
    Id,
    Json,
    /// Object with the text before the name, and the text between it and the arguments.
    Object([&'static str; 2]),
    Parameters,
    /// Call as in Python, with the text after the name of each tool.
    Python(&'static str),
    Gemma,
    Program,
    Harmony,
}

/// Texts around the key and the value of an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) before: String,
    pub(super) between: String,
    /// Text after the word that says if the value is text, if the pattern has such a word.
    pub(super) typed: Option<String>,
    /// White space that belongs to the marks, before and after the value.
    pub(super) gaps: (String, String),
    /// End of the value, which no value contains.
    pub(super) end: String,
    pub(super) after: String,
    pub(super) cdata: bool,
}

/// A text that may begin a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opener {
    pub(super) text: String,
    /// True if it begins calls only at the start, after nothing but white space and calls.
    pub(super) at_start: bool,
}

const USUAL: &str = "{\"name\": \"";
const COHERE: &str = "{\"tool_call_id\": \"0\", \"tool_name\": \"";
const PLACES: [(&str, SpellingPart); 13] = [
    ("name", SpellingPart::Name),
    ("numbered", SpellingPart::Numbered),
    ("id", SpellingPart::Id),
    ("json", SpellingPart::Json),
    (
        "object",
        SpellingPart::Object([USUAL, "\", \"arguments\": "]),
    ),
    (
        "llama",
        SpellingPart::Object([USUAL, "\", \"parameters\": "]),
    ),
    (
        "cohere",
        SpellingPart::Object([COHERE, "\", \"parameters\": "]),
    ),
    ("parameters", SpellingPart::Parameters),
    ("python", SpellingPart::Python("")),
    ("builtin", SpellingPart::Python(".call")),
    ("gemma", SpellingPart::Gemma),
    ("program", SpellingPart::Program),
    ("harmony", SpellingPart::Harmony),
];

impl From<&Pattern> for Spelling {
    fn from(pattern: &Pattern) -> Self {
        Self {
            open: parts(pattern.section.0),
            close: parts(pattern.section.1),
            call: parts(pattern.call),
            parameter: Parameter::from(pattern.parameter),
            between: pattern.between.to_owned(),
            bare: pattern.bare,
            single: pattern.single,
        }
    }
}

impl Spelling {
    /// Returns the texts that begin calls: the first text of the section, and that of a call
    /// outside of one if it is a mark.
    pub(super) fn openers(&self) -> Vec<Opener> {
        let opener = |text: &str, at_start| Opener {
            text: text.to_owned(),
            at_start,
        };
        if self.call.first() == Some(&SpellingPart::Harmony) {
            // The prompt ends with `<|start|>assistant`, so the first message can begin with its
            // recipient.
            let marks = ["<|start|>", "<|channel|>"].map(|mark| opener(mark, false));
            return [&marks[..], &[opener("to=functions.", true)]].concat();
        }
        let is_marked = matches!(self.call.first(), Some(SpellingPart::Mark(_)));
        let own = self.open.is_empty() || is_marked;
        let texts = [
            opening(&self.open),
            opening(if own { &self.call[..] } else { &[] }),
        ];
        let texts = texts.iter().map(|(_, text)| &**text);
        let mut openers: Vec<_> = texts
            .filter(|text| !text.is_empty())
            .map(|text| opener(text, self.bare))
            .collect();
        if self.bare && openers.is_empty() {
            openers.push(opener("{", true));
        }
        openers
    }
}

/// Returns the number of parts at the beginning of a pattern, and their text: one mark, or all up
/// to white space.
pub(super) fn opening(parts: &[SpellingPart]) -> (usize, String) {
    let is_marked = matches!(parts.first(), Some(SpellingPart::Mark(_)));
    let texts = parts.iter().map_while(literal);
    let texts: Vec<_> = texts
        .take_while(|text| !text.trim().is_empty())
        .take(if is_marked { 1 } else { usize::MAX })
        .collect();
    (texts.len(), texts.concat())
}

/// Returns the text of a part that is only text.
pub(super) fn literal(part: &SpellingPart) -> Option<&str> {
    match part {
        SpellingPart::Mark(text) | SpellingPart::Text(text) => Some(text),
        _ => None,
    }
}

/// Divides a pattern into parts.
pub(super) fn parts(pattern: &str) -> Vec<SpellingPart> {
    let mut pieces = pattern.split('$');
    let mut parts = literals(pieces.next().unwrap_or_default());
    for piece in pieces {
        let place =
            |(word, part): &(&str, SpellingPart)| Some((part.clone(), piece.strip_prefix(word)?));
        match PLACES.iter().find_map(place) {
            Some((part, rest)) => {
                parts.push(part);
                parts.extend(literals(rest));
            }
            None => parts.push(SpellingPart::Maybe(
                piece.trim_start_matches('?').to_owned(),
            )),
        }
    }
    parts
}

/// Divides a text into its marks, the texts between them, and the white space after each line.
pub(super) fn literals(text: &str) -> Vec<SpellingPart> {
    let mut parts = Vec::new();
    let plain = |text: &str, parts: &mut Vec<SpellingPart>| {
        for line in text.split_inclusive('\n') {
            let (word, space) = line.split_at(line.trim_end().len());
            let texts = [word, space].into_iter().filter(|text| !text.is_empty());
            parts.extend(texts.map(|text| SpellingPart::Text(text.to_owned())));
        }
    };
    let (mut from, mut at) = (0, 0);
    while let Some(next) = text[at..].chars().next() {
        if let Some(length) = mark(&text[at..]) {
            plain(&text[from..at], &mut parts);
            parts.push(SpellingPart::Mark(text[at..at + length].to_owned()));
            at += length;
            from = at;
        } else {
            at += next.len_utf8();
        }
    }
    plain(&text[from..], &mut parts);
    parts
}

/// Returns the length of the mark with which a text begins: `<...>`, `[CAPITALS]`, `｜...｜`, `◁...▷`
/// or a fence.
pub(super) fn mark(text: &str) -> Option<usize> {
    let between = |open: &str, close: char| {
        let inner = text.strip_prefix(open)?;
        let end = inner.find(close).filter(|end| *end > 0)?;
        Some((&inner[..end], open.len() + end + close.len_utf8()))
    };
    if let Some((name, length)) = between("<", '>') {
        let name = name.trim_start_matches('/');
        let spells = |c: char| !c.is_whitespace() && !"<[]{}()=,".contains(c);
        let is_whole = name.starts_with('｜') == name.ends_with('｜');
        return (is_whole && name.chars().all(spells)).then_some(length);
    }
    if let Some((name, length)) = between("[", ']') {
        let spells = |c: char| c.is_ascii_uppercase() || "_/".contains(c);
        return name.chars().all(spells).then_some(length);
    }
    let other = between("｜", '｜').or_else(|| between("◁", '▷'));
    let length = other.map(|(_, length)| length);
    length.or_else(|| text.starts_with("```").then_some(3))
}

impl From<&str> for Parameter {
    fn from(pattern: &str) -> Self {
        let cdata = pattern.contains("$cdata");
        let pattern = pattern.replace("$cdata", "$value");
        let (before, rest) = pattern.split_once("$key").unwrap_or_default();
        let (between, rest) = rest.split_once("$value").unwrap_or_default();
        let (between, typed) = match between.split_once("$text") {
            Some((between, typed)) => (between, Some(typed.to_owned())),
            None => (between, None),
        };
        let (word, end) = (between.trim_end(), rest.trim());
        let (gap, after) = rest.split_once(end).unwrap_or_default();
        Self {
            before: before.to_owned(),
            gaps: (between[word.len()..].to_owned(), gap.to_owned()),
            between: word.to_owned(),
            typed,
            end: end.to_owned(),
            after: after.to_owned(),
            cdata,
        }
    }
}
