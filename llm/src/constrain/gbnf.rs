//! GBNF, the grammar notation of llama.cpp, written as Lark.
//!
//! Lark has a lexer, which takes the longest match and never reconsiders it, and GBNF has none. So
//! a grammar whose rules do not lead to themselves becomes one regular expression, which is exact.
//! In any other, what stands together and does not lead to itself is matched as a whole, but for an
//! end that may be left out: that is taken character by character, since what follows may begin
//! alike.

use std::fmt::Write;

use super::compiler::ConstraintError;
use super::grammar::{quoted, regex_char};

/// Brackets within brackets.
const DEEPEST: usize = 64;
/// Rules of a grammar.
const MAX_RULES: usize = 2000;
/// The rule that a text matches.
const ROOT: &str = "root";

/// Any character.
const ANY: &str = "(?s:.)";

/// What a rule consists of.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Literal(String),
    /// A regular expression that matches one character.
    Class(String),
    /// The rule of this number.
    Rule(usize),
    /// A token, as Lark names it.
    Token(String),
    Group(Vec<Vec<Node>>),
    /// At least so many times, and at most.
    Repeat(Box<Node>, u32, Option<u32>),
}

/// A rule: its name, and what it was defined as.
struct Rule {
    name: String,
    alternatives: Option<Vec<Vec<Node>>>,
}

/// Writes a grammar as Lark.
///
/// # Errors
/// [`ConstraintError`] says what is wrong, and in which line.
pub(super) fn to_lark(text: &str) -> Result<String, ConstraintError> {
    let mut parser = Parser {
        text: text.chars().collect(),
        at: 0,
        rules: Vec::new(),
    };
    parser.grammar()?;
    let rules = parser.rules;
    if let Some(rule) = rules.iter().find(|rule| rule.alternatives.is_none()) {
        return Err(ConstraintError(format!(
            "the rule `{}` is missing",
            rule.name
        )));
    }
    let Some(root) = rules.iter().position(|rule| rule.name == ROOT) else {
        return Err(ConstraintError(format!("the rule `{ROOT}` is missing")));
    };
    let mut writer = Writer {
        is_flat: flat_rules(&rules),
        rules: &rules,
        lark: String::new(),
        terminals: Vec::new(),
    };
    if writer.is_flat[root] {
        let _ = writeln!(writer.lark, "start: T{root}");
    } else {
        let _ = writeln!(writer.lark, "start: r{root}");
        for (number, rule) in rules.iter().enumerate() {
            let _ = write!(writer.lark, "r{number}: ");
            writer.rule_alternatives(rule.alternatives());
            writer.lark.push('\n');
        }
    }
    for (number, rule) in rules.iter().enumerate() {
        if writer.is_flat[number] {
            let _ = write!(writer.lark, "T{number}: ");
            writer.terminal_alternatives(rule.alternatives());
            writer.lark.push('\n');
        }
    }
    for (number, nodes) in std::mem::take(&mut writer.terminals)
        .into_iter()
        .enumerate()
    {
        let _ = write!(writer.lark, "X{number}: ");
        writer.terminal_sequence(nodes);
        writer.lark.push('\n');
    }
    Ok(writer.lark)
}

impl Rule {
    fn alternatives(&self) -> &[Vec<Node>] {
        self.alternatives.as_deref().unwrap_or_default()
    }
}

/// Which rules lead neither to themselves nor to one that does, nor to a token.
fn flat_rules(rules: &[Rule]) -> Vec<bool> {
    let mut is_flat = vec![false; rules.len()];
    // Each round finds those whose rules are all found.
    loop {
        let is_found = |rule: &usize| {
            let mut nodes = rules[*rule].alternatives().iter().flatten();
            !is_flat[*rule] && nodes.all(|node| node.is_flat(&is_flat))
        };
        let found: Vec<usize> = (0..rules.len()).filter(is_found).collect();
        if found.is_empty() {
            return is_flat;
        }
        for rule in found {
            is_flat[rule] = true;
        }
    }
}

impl Node {
    fn is_flat(&self, is_flat: &[bool]) -> bool {
        match self {
            Self::Literal(_) | Self::Class(_) => true,
            Self::Rule(rule) => is_flat[*rule],
            Self::Token(_) => false,
            Self::Group(alternatives) => alternatives
                .iter()
                .flatten()
                .all(|node| node.is_flat(is_flat)),
            Self::Repeat(node, ..) => node.is_flat(is_flat),
        }
    }

    /// Whether what it matches can end here, and also go on; only asked of what is flat.
    fn ends_openly(&self, rules: &[Rule]) -> bool {
        let any = |alternatives: &[Vec<Node>]| {
            alternatives
                .iter()
                .any(|nodes| nodes.last().is_none_or(|last| last.ends_openly(rules)))
        };
        match self {
            Self::Literal(text) => text.is_empty(),
            Self::Class(_) | Self::Token(_) => false,
            Self::Rule(rule) => any(rules[*rule].alternatives()),
            Self::Group(alternatives) => any(alternatives),
            // Almost any character can follow, so it has to be matched as a whole.
            Self::Repeat(node, ..) if matches!(&**node, Self::Class(class) if is_wide(class)) => {
                false
            }
            Self::Repeat(_, least, most) => *most != Some(*least),
        }
    }
}

/// Whether a class has all characters but a few.
fn is_wide(class: &str) -> bool {
    class.starts_with("[^") || class == ANY
}

struct Writer<'a> {
    rules: &'a [Rule],
    is_flat: Vec<bool>,
    lark: String,
    /// What stands together in a rule and is matched as a whole.
    terminals: Vec<&'a [Node]>,
}

impl<'a> Writer<'a> {
    fn rule_alternatives(&mut self, alternatives: &'a [Vec<Node>]) {
        for (number, nodes) in alternatives.iter().enumerate() {
            if number > 0 {
                self.lark.push_str(" | ");
            }
            if nodes.is_empty() {
                self.lark.push_str("\"\"");
            }
            self.rule_sequence(nodes);
        }
    }

    fn rule_sequence(&mut self, nodes: &'a [Node]) {
        let mut rest = nodes;
        while let Some((first, others)) = rest.split_first() {
            let flat = rest
                .iter()
                .take_while(|node| node.is_flat(&self.is_flat))
                .count();
            let closed = rest[..flat]
                .iter()
                .rposition(|node| !node.ends_openly(self.rules));
            if let Some(last) = closed {
                let (whole, others) = rest.split_at(last + 1);
                if let [Node::Literal(_) | Node::Class(_)] = whole {
                    self.terminal_sequence(whole);
                } else {
                    let _ = write!(self.lark, "X{}", self.terminals.len());
                    self.terminals.push(whole);
                }
                rest = others;
            } else {
                self.rule_node(first);
                rest = others;
            }
            if !rest.is_empty() {
                self.lark.push(' ');
            }
        }
    }

    fn rule_node(&mut self, node: &'a Node) {
        match node {
            Node::Rule(rule) => {
                let _ = write!(self.lark, "r{rule}");
            }
            Node::Group(alternatives) => {
                self.lark.push('(');
                self.rule_alternatives(alternatives);
                self.lark.push(')');
            }
            Node::Repeat(_, _, Some(0)) => self.lark.push_str("\"\""),
            Node::Repeat(node, least, most) => {
                self.lark.push('(');
                self.rule_node(node);
                self.lark.push(')');
                self.times(*least, *most);
            }
            Node::Literal(_) | Node::Class(_) | Node::Token(_) => self.terminal_node(node),
        }
    }

    fn terminal_alternatives(&mut self, alternatives: &[Vec<Node>]) {
        for (number, nodes) in alternatives.iter().enumerate() {
            if number > 0 {
                self.lark.push_str(" | ");
            }
            if nodes.is_empty() {
                self.lark.push_str("\"\"");
            }
            self.terminal_sequence(nodes);
        }
    }

    fn terminal_sequence(&mut self, nodes: &[Node]) {
        for (number, node) in nodes.iter().enumerate() {
            if number > 0 {
                self.lark.push(' ');
            }
            self.terminal_node(node);
        }
    }

    fn terminal_node(&mut self, node: &Node) {
        match node {
            Node::Literal(text) => self.lark.push_str(&quoted(text)),
            Node::Class(regex) => {
                let _ = write!(self.lark, "/{regex}/");
            }
            Node::Rule(rule) => {
                let _ = write!(self.lark, "T{rule}");
            }
            Node::Token(token) => self.lark.push_str(token),
            Node::Group(alternatives) => {
                self.lark.push('(');
                self.terminal_alternatives(alternatives);
                self.lark.push(')');
            }
            Node::Repeat(_, _, Some(0)) => self.lark.push_str("\"\""),
            Node::Repeat(node, least, most) => {
                self.lark.push('(');
                self.terminal_node(node);
                self.lark.push(')');
                self.times(*least, *most);
            }
        }
    }

    fn times(&mut self, least: u32, most: Option<u32>) {
        let _ = match (least, most) {
            (0, Some(1)) => write!(self.lark, "?"),
            (0, None) => write!(self.lark, "*"),
            (1, None) => write!(self.lark, "+"),
            (least, Some(most)) => write!(self.lark, "{{{least},{most}}}"),
            (least, None) => write!(self.lark, "{{{least},}}"),
        };
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    rules: Vec<Rule>,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let wanted: Vec<char> = wanted.chars().collect();
        let found = self.text[self.at..].starts_with(&wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    fn error<T>(&self, message: &str) -> Result<T, ConstraintError> {
        let line = self.text[..self.at].iter().filter(|c| **c == '\n').count() + 1;
        Err(ConstraintError(format!("line {line}: {message}")))
    }

    /// Skips white space and comments, and ends of lines where they mean nothing.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\r' | '\n' if lines => {}
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n' && c != '\r') {
                        self.at += 1;
                    }
                    continue;
                }
                _ => return,
            }
            self.at += 1;
        }
    }

    fn grammar(&mut self) -> Result<(), ConstraintError> {
        self.space(true);
        while self.peek().is_some() {
            let rule = self.name()?;
            self.space(false);
            if !self.eat("::=") {
                return self.error("expected `::=` after the name of a rule");
            }
            self.space(true);
            let alternatives = self.alternatives(0)?;
            if !matches!(self.peek(), None | Some('\r' | '\n')) {
                return self.error("expected the end of the rule");
            }
            if self.rules[rule]
                .alternatives
                .replace(alternatives)
                .is_some()
            {
                let name = self.rules[rule].name.clone();
                return self.error(&format!("the rule `{name}` is defined twice"));
            }
            self.space(true);
        }
        Ok(())
    }

    /// The number of the rule whose name is here.
    fn name(&mut self) -> Result<usize, ConstraintError> {
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        if start == self.at {
            return self.error("expected the name of a rule");
        }
        let name: String = self.text[start..self.at].iter().collect();
        if let Some(rule) = self.rules.iter().position(|rule| rule.name == name) {
            return Ok(rule);
        }
        if self.rules.len() == MAX_RULES {
            return self.error("too many rules");
        }
        self.rules.push(Rule {
            name,
            alternatives: None,
        });
        Ok(self.rules.len() - 1)
    }

    fn alternatives(&mut self, depth: usize) -> Result<Vec<Vec<Node>>, ConstraintError> {
        if depth > DEEPEST {
            return self.error("too many brackets within brackets");
        }
        let mut alternatives = vec![self.sequence(depth)?];
        while self.eat("|") {
            self.space(true);
            alternatives.push(self.sequence(depth)?);
        }
        Ok(alternatives)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<Node>, ConstraintError> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek() {
            let node = match c {
                '"' => Node::Literal(self.literal()?),
                '[' => Node::Class(self.class()?),
                '(' => {
                    self.at += 1;
                    self.space(true);
                    let alternatives = self.alternatives(depth + 1)?;
                    if !self.eat(")") {
                        return self.error("expected `)`");
                    }
                    Node::Group(alternatives)
                }
                '.' => {
                    self.at += 1;
                    Node::Class(ANY.to_owned())
                }
                '<' => Node::Token(self.token()?),
                '!' => return self.error("`!` is not supported"),
                c if is_word(c) => Node::Rule(self.name()?),
                _ => break,
            };
            self.space(depth > 0);
            let node = self.repeated(node)?;
            nodes.push(node);
            self.space(depth > 0);
        }
        Ok(nodes)
    }

    /// A node with the repetitions behind it.
    fn repeated(&mut self, mut node: Node) -> Result<Node, ConstraintError> {
        let mut times = 0;
        while let Some(c) = self.peek() {
            let (least, most) = match c {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => {
                    self.at += 1;
                    let least = self.count()?;
                    let most = if self.eat(",") {
                        if self.peek() == Some('}') {
                            None
                        } else {
                            Some(self.count()?)
                        }
                    } else {
                        Some(least)
                    };
                    if self.peek() != Some('}') {
                        return self.error("expected `}`");
                    }
                    if most.is_some_and(|most| most < least) {
                        return self.error("a repetition has its larger number first");
                    }
                    (least, most)
                }
                _ => break,
            };
            self.at += 1;
            times += 1;
            if times > DEEPEST {
                return self.error("too many repetitions of repetitions");
            }
            node = Node::Repeat(Box::new(node), least, most);
        }
        Ok(node)
    }

    fn count(&mut self) -> Result<u32, ConstraintError> {
        self.space(false);
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let digits: String = self.text[start..self.at].iter().collect();
        self.space(false);
        // What Lark can say.
        match digits.parse::<i32>() {
            Ok(count) => Ok(count as u32),
            Err(_) => self.error("expected a number of repetitions"),
        }
    }

    fn literal(&mut self) -> Result<String, ConstraintError> {
        self.at += 1;
        let mut literal = String::new();
        loop {
            match self.next() {
                None => return self.error("a string does not end"),
                Some('"') => return Ok(literal),
                Some('\\') => literal.push(self.escape()?),
                Some(c) => literal.push(c),
            }
        }
    }

    fn class(&mut self) -> Result<String, ConstraintError> {
        self.at += 1;
        let is_negated = self.eat("^");
        let mut regex = String::from(if is_negated { "[^" } else { "[" });
        let mut is_empty = true;
        loop {
            let first = match self.next() {
                None => return self.error("a set of characters does not end"),
                Some(']') if is_empty && is_negated => return Ok(ANY.to_owned()),
                Some(']') if is_empty => return self.error("a set of characters is empty"),
                Some(']') => {
                    regex.push(']');
                    return Ok(regex);
                }
                Some('\\') => self.escape()?,
                Some(c) => c,
            };
            is_empty = false;
            regex.push_str(&regex_char(first));
            let is_range =
                self.peek() == Some('-') && self.text.get(self.at + 1).is_some_and(|c| *c != ']');
            if is_range {
                self.at += 1;
                let last = match self.next() {
                    Some('\\') => self.escape()?,
                    Some(c) => c,
                    None => return self.error("a set of characters does not end"),
                };
                if last < first {
                    return self.error("a range of characters has its larger end first");
                }
                regex.push('-');
                regex.push_str(&regex_char(last));
            }
        }
    }

    /// The character that an escape stands for, behind its backslash.
    fn escape(&mut self) -> Result<char, ConstraintError> {
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return self.error("unknown escape"),
        };
        let end = (self.at + digits).min(self.text.len());
        let number: String = self.text[self.at..end].iter().collect();
        self.at = end;
        let code = u32::from_str_radix(&number, 16).ok();
        match code
            .filter(|_| number.len() == digits)
            .and_then(char::from_u32)
        {
            Some(c) => Ok(c),
            None => self.error("an escape is no character"),
        }
    }

    /// `<name>` or `<[number]>`, which Lark writes alike.
    fn token(&mut self) -> Result<String, ConstraintError> {
        let start = self.at;
        while let Some(c) = self.next() {
            if c == '>' {
                return Ok(self.text[start..self.at].iter().collect());
            }
            if c.is_whitespace() {
                break;
            }
        }
        self.error("a token does not end")
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

#[cfg(test)]
#[path = "gbnf_tests.rs"]
mod tests;
