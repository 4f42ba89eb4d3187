//! Patterns of calls that are learned from a chat template. A call is rendered with words that
//! occur nowhere else, and the text around them is its pattern.

use std::ops::Range;

use serde_json::{Value, json};

use super::objects::{self, ParsedCall};
use super::read::{CallReading, Input};
use super::scan::{Scan, ScanResult};
use super::spelling::{Spelling, SpellingPart, literals, mark, parts};
use super::table::Ids;
use super::{CallFormat, Tools};
use crate::text::chat_template::ChatTemplate;

/// Names, keys and values of two calls.
const NAMES: [&str; 2] = ["zqfirstz", "zqotherz"];
const KEYS: [&str; 2] = ["zqkeyonez", "zqkeytwoz"];
const VALUES: [&str; 2] = ["zqworth", "zqvalue"];
const ID: &str = "zqident01";
const ANSWER: &str = "Zqanswerz";

/// Returns the pattern in which a template writes calls, if it can be told apart from text.
pub(super) fn spelling(template: &ChatTemplate) -> Option<Spelling> {
    let object = arguments();
    // Some templates need the arguments as text, and some accept only one call at a time.
    let text = Value::from(object.to_string());
    [(&object, 2), (&text, 2), (&object, 1), (&text, 1)]
        .into_iter()
        .find_map(|(arguments, count)| {
            let text = rendered(template, arguments, &NAMES[..count])?;
            let spelling = spelling_of(&text, count)?;
            reads(&spelling, &text, count).then_some(spelling)
        })
}

fn arguments() -> Value {
    json!({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]})
}

/// Returns true if the pattern reads the calls, and begins as no other text does.
fn reads(spelling: &Spelling, text: &str, count: usize) -> bool {
    let openers = spelling.openers();
    let opener = openers.first().map_or("", |opener| &opener.text);
    let is_mark = opener.len() > 2 && !opener.chars().all(char::is_alphanumeric);
    let is_mark = is_mark && !format!("{spelling:?}").contains(ID);
    let (true, Some(start)) = (is_mark, text.find(opener)) else {
        return false;
    };
    let format = CallFormat::new(vec![spelling.clone()], 0, Ids::Random);
    let tools = &Tools::default();
    let input = Input {
        text,
        end: true,
        tools,
    };
    let (mut calls, mut at) = (Vec::new(), start);
    while calls.len() < count {
        let mut reading = CallReading::new(at);
        if reading.advance(&format, input).is_err() {
            return false;
        }
        at = reading.at;
        calls.extend(reading.calls);
    }
    let is_right = |(call, name): (&ParsedCall, &&str)| {
        call.name == **name && serde_json::from_str(&call.arguments).ok() == Some(arguments())
    };
    calls.iter().zip(&NAMES).all(is_right)
}

/// Renders a message with these calls, and removes the text of other messages.
fn rendered(template: &ChatTemplate, arguments: &Value, names: &[&str]) -> Option<String> {
    let render = |message: Value| {
        let messages = json!([{"role": "user", "content": "Hi"}, message]);
        let variables = json!({"messages": messages, "bos_token": "", "eos_token": ""});
        template.render(&variables).ok()
    };
    let call = |name: &&str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"id": ID, "type": "function", "function": function})
    };
    let calls: Vec<_> = names.iter().map(call).collect();
    let text = render(json!({"role": "assistant", "content": "", "tool_calls": calls}))?;
    let plain = render(json!({"role": "assistant", "content": ANSWER}))?;
    let (before, after) = plain.split_once(ANSWER)?;
    let same = |(one, other): &(u8, u8)| one == other;
    let start = text.bytes().zip(before.bytes()).take_while(same).count();
    let end = text
        .bytes()
        .rev()
        .zip(after.bytes().rev())
        .take_while(same)
        .count();
    let text = text.get(start..text.len().checked_sub(end)?)?;
    let is_whole = names.iter().all(|name| text.matches(name).count() == 1);
    is_whole.then(|| text.to_owned())
}

/// Returns the pattern of one call or two.
fn spelling_of(text: &str, count: usize) -> Option<Spelling> {
    let cores = NAMES[..count].iter().map(|name| core(text, name));
    let cores: Vec<_> = cores.collect::<Option<_>>()?;
    let ((first, parts, parameter), (last, ..)) = (cores.first()?, cores.last()?);
    let (before, after) = (&text[..first.start], &text[last.end..]);
    let (mut open, mut close, mut between) = ("", "", "");
    let (mut begin, mut end) = (before, after);
    if count == 2 {
        // This is the end of one call, the separator, and the beginning of the other.
        let middle = text.get(first.end..last.start)?;
        begin = common_end(before, middle);
        let middle = &middle[..middle.len() - begin.len()];
        end = common_start(after, middle);
        between = &middle[end.len()..];
        open = &before[..before.len() - begin.len()];
        close = &after[end.len()..];
    }
    Some(Spelling {
        open: literals(open),
        close: literals(close),
        call: [literals(begin), parts.clone(), literals(end)].concat(),
        parameter: (&**parameter).into(),
        between: between.to_owned(),
        bare: false,
        single: count == 1,
    })
}

/// A call without the marks around it: its range, its parts, and the pattern of a parameter.
type BareCall = (Range<usize>, Vec<SpellingPart>, String);

fn core(text: &str, name: &str) -> Option<BareCall> {
    let named = text.find(name)?;
    let behind = named + name.len();
    // The largest object with the name and the arguments.
    let mut found = None;
    for (start, _) in text[..named].rmatch_indices('{') {
        if let ScanResult::Ends(end) = Scan::new(start).advance(text)
            && end > named
            && objects::call(&text[start..end]).is_some_and(|call| call.name == name)
        {
            let is_llama = text[start..end].contains("\"parameters\"");
            let place = if is_llama { "$llama" } else { "$object" };
            found = Some((start..end, parts(place), String::new()));
        }
    }
    if found.is_some() {
        return found;
    }
    let at = |word: &&str| text[behind..].find(*word).map(|at| behind + at);
    let [key, value, next, last] = [KEYS[0], VALUES[0], KEYS[1], VALUES[1]];
    let (key, value, next, last) = (at(&key)?, at(&value)?, at(&next)?, at(&last)?);
    let head = &text[behind..key];
    let named_with =
        |head: &str, part| [vec![SpellingPart::Name], literals(head), vec![part]].concat();
    // The arguments are an object.
    if let Some(brace) = head.rfind('{')
        && let ScanResult::Ends(end) = Scan::new(behind + brace).advance(text)
    {
        let parts = named_with(&head[..brace], SpellingPart::Json);
        return Some((named..end, parts, String::new()));
    }
    // The arguments come one by one: with a text before the first key, and one between a value and
    // the next key.
    let between = text.get(key + KEYS[0].len()..value)?;
    let rest = text.get(value + VALUES[0].len()..next)?;
    if ["=\"", "='"].contains(&between) && head == "(" {
        let end = last + text[last..].find(')')? + 1;
        return Some((named..end, vec![SpellingPart::Python("")], String::new()));
    }
    let before = common_end(head, rest);
    let after = &rest[..rest.len() - before.len()];
    let end = last + VALUES[1].len() + after.len();
    let parts = named_with(&head[..head.len() - before.len()], SpellingPart::Parameters);
    let parameter = format!("{before}$key{between}$value{after}");
    let is_marked = ![before, after].iter().any(|text| text.trim().is_empty());
    is_marked.then_some((named..end, parts, parameter))
}

/// Returns the longest common end of two texts. Marks are not divided.
fn common_end<'a>(one: &'a str, other: &str) -> &'a str {
    let starts = one.char_indices().map(|(at, _)| at);
    let mut starts = starts.filter(|at| other.ends_with(&one[*at..]));
    let whole = |at: &usize| *at == 0 || starts_word(one, *at);
    &one[starts.find(whole).unwrap_or(one.len())..]
}

/// Returns the longest common beginning of two texts. Marks are not divided.
fn common_start<'a>(one: &'a str, other: &str) -> &'a str {
    let ends = one.char_indices().map(|(at, c)| at + c.len_utf8());
    let mut ends = ends.filter(|at| other.starts_with(&one[..*at])).rev();
    let whole = |at: &usize| *at == one.len() || starts_word(one, *at);
    &one[..ends.find(whole).unwrap_or(0)]
}

/// Returns true if a mark, white space or a bracket begins there, and not the middle of a word.
fn starts_word(text: &str, at: usize) -> bool {
    mark(&text[at..]).is_some()
        || text[at..].starts_with(|c: char| !c.is_alphanumeric() && !"_>|".contains(c))
}
