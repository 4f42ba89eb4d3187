//! Translates rules to Lark: rules without recursion to terminals, the others to rules.

use std::fmt::Write;

use super::{GbnfNode, Rule};
use crate::constrain::grammar::quoted;

/// Writes the Lark grammar whose text matches the rule `root`.
pub(super) fn write(rules: &[Rule], root: usize) -> String {
    let mut writer = LarkWriter {
        is_flat: flat_rules(rules),
        rules,
        lark: String::new(),
        terminals: Vec::new(),
    };
    if writer.is_flat[root] {
        let _ = writeln!(writer.lark, "start: T{root}");
    } else {
        let _ = writeln!(writer.lark, "start: r{root}");
        for (number, rule) in rules.iter().enumerate() {
            let _ = write!(writer.lark, "r{number}: ");
            writer.alternatives(rule.alternatives(), false);
            writer.lark.push('\n');
        }
    }
    for (number, rule) in rules.iter().enumerate() {
        if writer.is_flat[number] {
            let _ = write!(writer.lark, "T{number}: ");
            writer.alternatives(rule.alternatives(), true);
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
    writer.lark
}

/// Finds the rules that contain neither recursion nor a token, directly or indirectly.
fn flat_rules(rules: &[Rule]) -> Vec<bool> {
    let mut is_flat = vec![false; rules.len()];
    // Each round finds the rules that use only rules found before.
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

struct LarkWriter<'a> {
    rules: &'a [Rule],
    is_flat: Vec<bool>,
    lark: String,
    /// Parts of rules that are matched as a whole.
    terminals: Vec<&'a [GbnfNode]>,
}

impl<'a> LarkWriter<'a> {
    /// Writes alternatives, as part of a terminal if `is_terminal`, otherwise of a rule.
    fn alternatives(&mut self, alternatives: &'a [Vec<GbnfNode>], is_terminal: bool) {
        for (number, nodes) in alternatives.iter().enumerate() {
            if number > 0 {
                self.lark.push_str(" | ");
            }
            if nodes.is_empty() {
                self.lark.push_str("\"\"");
            }
            if is_terminal {
                self.terminal_sequence(nodes);
            } else {
                self.rule_sequence(nodes);
            }
        }
    }

    fn rule_sequence(&mut self, nodes: &'a [GbnfNode]) {
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
                if let [GbnfNode::Literal(_) | GbnfNode::Class(_)] = whole {
                    self.terminal_sequence(whole);
                } else {
                    let _ = write!(self.lark, "X{}", self.terminals.len());
                    self.terminals.push(whole);
                }
                rest = others;
            } else {
                self.node(first, false);
                rest = others;
            }
            if !rest.is_empty() {
                self.lark.push(' ');
            }
        }
    }

    fn terminal_sequence(&mut self, nodes: &'a [GbnfNode]) {
        for (number, node) in nodes.iter().enumerate() {
            if number > 0 {
                self.lark.push(' ');
            }
            self.node(node, true);
        }
    }

    fn node(&mut self, node: &'a GbnfNode, is_terminal: bool) {
        match node {
            GbnfNode::Literal(text) => self.lark.push_str(&quoted(text)),
            GbnfNode::Class(regex) => {
                let _ = write!(self.lark, "/{regex}/");
            }
            GbnfNode::Rule(rule) => {
                let kind = if is_terminal { 'T' } else { 'r' };
                let _ = write!(self.lark, "{kind}{rule}");
            }
            GbnfNode::Token(token) => self.lark.push_str(token),
            GbnfNode::Group(alternatives) => {
                self.lark.push('(');
                self.alternatives(alternatives, is_terminal);
                self.lark.push(')');
            }
            GbnfNode::Repeat(_, _, Some(0)) => self.lark.push_str("\"\""),
            GbnfNode::Repeat(node, least, most) => {
                self.lark.push('(');
                self.node(node, is_terminal);
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
