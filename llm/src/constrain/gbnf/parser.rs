//! Parser for GBNF.

use super::{ANY, GbnfNode, Rule};
use crate::constrain::compiler::ConstraintError;
use crate::constrain::grammar::regex_char;

/// Maximum depth of nested parentheses.
const DEEPEST: usize = 64;
/// Maximum number of rules in a grammar.
const MAX_RULES: usize = 2000;

/// Parses the rules of a grammar, including those that are used but not defined.
///
/// # Errors
/// [`ConstraintError`] with the mistake and its line.
pub(super) fn rules(text: &str) -> Result<Vec<Rule>, ConstraintError> {
    let mut parser = Parser {
        text: text.chars().collect(),
        at: 0,
        rules: Vec::new(),
    };
    parser.grammar()?;
    Ok(parser.rules)
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

    /// Takes the next characters that `is` accepts.
    fn take_while(&mut self, is: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    fn error<T>(&self, message: &str) -> Result<T, ConstraintError> {
        let line = self.text[..self.at].iter().filter(|c| **c == '\n').count() + 1;
        Err(ConstraintError(format!("line {line}: {message}")))
    }

    /// Skips white space and comments, and with `lines` also line ends.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => {}
                '\r' | '\n' if lines => {}
                '#' => {
                    self.take_while(|c| c != '\n' && c != '\r');
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

    /// Parses the name of a rule and returns its number.
    fn name(&mut self) -> Result<usize, ConstraintError> {
        let name = self.take_while(is_word);
        if name.is_empty() {
            return self.error("expected the name of a rule");
        }
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

    fn alternatives(&mut self, depth: usize) -> Result<Vec<Vec<GbnfNode>>, ConstraintError> {
        if depth > DEEPEST {
            return self.error("parentheses are nested too deeply");
        }
        let mut alternatives = vec![self.sequence(depth)?];
        while self.eat("|") {
            self.space(true);
            alternatives.push(self.sequence(depth)?);
        }
        Ok(alternatives)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<GbnfNode>, ConstraintError> {
        let mut nodes = Vec::new();
        while let Some(c) = self.peek() {
            let node = match c {
                '"' => GbnfNode::Literal(self.literal()?),
                '[' => GbnfNode::Class(self.class()?),
                '(' => {
                    self.at += 1;
                    self.space(true);
                    let alternatives = self.alternatives(depth + 1)?;
                    if !self.eat(")") {
                        return self.error("expected `)`");
                    }
                    GbnfNode::Group(alternatives)
                }
                '.' => {
                    self.at += 1;
                    GbnfNode::Class(ANY.to_owned())
                }
                '<' => GbnfNode::Token(self.token()?),
                '!' => return self.error("`!` is not supported"),
                c if is_word(c) => GbnfNode::Rule(self.name()?),
                _ => break,
            };
            self.space(depth > 0);
            let node = self.repeated(node)?;
            nodes.push(node);
            self.space(depth > 0);
        }
        Ok(nodes)
    }

    /// Parses the repetitions after a node.
    fn repeated(&mut self, mut node: GbnfNode) -> Result<GbnfNode, ConstraintError> {
        let mut times = 0;
        while let Some(c) = self.peek() {
            let (least, most) = match c {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => {
                    self.at += 1;
                    let least = self.count()?;
                    let most = match (self.eat(","), self.peek()) {
                        (false, _) => Some(least),
                        (true, Some('}')) => None,
                        (true, _) => Some(self.count()?),
                    };
                    if self.peek() != Some('}') {
                        return self.error("expected `}`");
                    }
                    if most.is_some_and(|most| most < least) {
                        return self.error("the minimum of a repetition is above its maximum");
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
            node = GbnfNode::Repeat(Box::new(node), least, most);
        }
        Ok(node)
    }

    fn count(&mut self) -> Result<u32, ConstraintError> {
        self.space(false);
        let digits = self.take_while(|c| c.is_ascii_digit());
        self.space(false);
        // Lark allows no larger number.
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
                None => return self.error("unterminated string"),
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
                None => return self.error("unterminated set of characters"),
                Some(']') if is_empty && is_negated => return Ok(ANY.to_owned()),
                Some(']') if is_empty => return self.error("empty set of characters"),
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
                    None => return self.error("unterminated set of characters"),
                };
                if last < first {
                    return self.error("a range of characters has its larger end first");
                }
                regex.push('-');
                regex.push_str(&regex_char(last));
            }
        }
    }

    /// Parses the escape sequence after a backslash and returns its character.
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
            None => self.error("an escape sequence is not a character"),
        }
    }

    /// Parses `<name>` or `<[number]>`, which have the same form in Lark.
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
        self.error("unterminated token")
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
