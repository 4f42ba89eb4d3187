//! Search for rules of a grammar that no text can begin to match, because they lead only to
//! themselves: a text that reaches one cannot continue.

use llguidance::earley::{CGrammar, CSymIdx};
use rustc_hash::{FxHashMap, FxHashSet};

/// Part of a grammar that no text can match.
#[derive(Debug)]
pub(super) enum Dead {
    Whole,
    /// A rule that a text can reach.
    Rule(String),
}

/// Checks that a text can continue wherever it gets.
pub(super) fn check(grammar: &CGrammar) -> Result<(), Dead> {
    // Rules with conditions apply only sometimes, which only the matcher can tell.
    if grammar.parametric() {
        return Ok(());
    }
    let start = grammar.start();
    let mut rules: Vec<&[CSymIdx]> = Vec::new();
    // Rules by the symbol that they begin with.
    let mut begun: FxHashMap<CSymIdx, Vec<CSymIdx>> = FxHashMap::default();
    let mut known = FxHashSet::from_iter([start]);
    let mut left = vec![start];
    while let Some(symbol) = left.pop() {
        for rule in grammar.rules_of(symbol) {
            let (parts, ..) = grammar.rule_rhs(*rule);
            if let Some(first) = parts.first() {
                begun.entry(*first).or_default().push(symbol);
            }
            left.extend(parts.iter().filter(|part| known.insert(**part)));
            rules.push(parts);
        }
    }
    let is_leaf = |symbol: &CSymIdx| {
        let data = grammar.sym_data(*symbol);
        data.is_terminal || data.is_nullable || data.lexeme.is_some()
    };
    let mut alive: FxHashSet<CSymIdx> = known.into_iter().filter(is_leaf).collect();
    let mut found: Vec<_> = alive.iter().copied().collect();
    while let Some(symbol) = found.pop() {
        let wholes = begun.get(&symbol).into_iter().flatten();
        found.extend(wholes.filter(|whole| alive.insert(**whole)));
    }
    if !alive.contains(&start) {
        return Err(Dead::Whole);
    }
    // A text cannot reach a rule that has nothing before it.
    let dead = rules.iter().find_map(|parts| {
        let at = parts.iter().position(|part| !alive.contains(part))?;
        (at > 0).then(|| parts[at])
    });
    dead.map_or(Ok(()), |rule| {
        Err(Dead::Rule(grammar.sym_name(rule).to_owned()))
    })
}
