//! Detection of options that exclude each other, so that `oneOf` equals `anyOf`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::keywords::{Keywords, TYPES, one_or_more};
use super::parts::{Parts, is_same};
use super::rewriting::{Node, demand};
use super::{DEEPEST, Result, refused};

/// Maximum number of steps for all comparisons: each option is compared with each other one.
const MOST_STEPS: usize = 10_000_000;

/// Replaces `oneOf` by `anyOf` if its options exclude each other.
pub(super) fn one_of(keywords: &mut Keywords, options: Value, node: &Node) -> Result {
    let around = node.around_with(keywords);
    let each = one_or_more(&options).iter();
    let each = each.map(|option| Parts::new([option], &around, node.root));
    let each: Vec<_> = each.collect();
    let mut left = MOST_STEPS;
    let pairs = if are_told_apart(&each) {
        &[]
    } else {
        &each[..]
    };
    for (at, option) in pairs.iter().enumerate() {
        for (other_at, other) in pairs.iter().enumerate().skip(at + 1) {
            if !is_disjoint(option, other, DEEPEST, &mut left) {
                let why = format!(
                    "has options that may match the same value, {at} and {other_at}: use `anyOf`, or distinguish them by a required property"
                );
                return refused("oneOf", why, node.place);
            }
        }
    }
    if keywords.contains_key("anyOf") {
        demand(keywords, json!({ "anyOf": options }));
    } else {
        keywords.insert("anyOf".to_owned(), options);
    }
    Ok(())
}

/// Returns true if all options are objects that require the same property, and each lists other
/// texts for it. Otherwise options are compared in pairs.
fn are_told_apart(options: &[Parts]) -> bool {
    let is_object = |option: &Parts| {
        let mut others = TYPES.iter().filter(|(kind, _)| *kind != "object");
        others.all(|(kind, is)| !option.can_be(kind, *is))
    };
    let mut names = options.first().into_iter().flat_map(Parts::required);
    names.any(|name| {
        let mut seen = HashSet::new();
        options.iter().all(|option| {
            let texts = option.property(name).values.unwrap_or_default();
            let mut texts = texts.into_iter().map(Value::as_str);
            is_object(option)
                && option.required().any(|required| required == name)
                && texts.len() > 0
                && texts.all(|text| text.is_some_and(|text| seen.insert(text)))
        })
    })
}

/// Returns true if certainly no value matches both.
fn is_disjoint(a: &Parts, b: &Parts, depth: usize, left: &mut usize) -> bool {
    *left = left.saturating_sub(a.steps * b.steps);
    if depth == 0 || *left == 0 {
        return false;
    }
    if let (Some(a), Some(b)) = (&a.values, &b.values) {
        return !a.iter().any(|a| b.iter().any(|b| is_same(a, b)));
    }
    let can_be = |(kind, is): &&(&str, _)| a.can_be(kind, *is) && b.can_be(kind, *is);
    let shared = TYPES.iter().filter(can_be).map(|(kind, _)| *kind);
    let is_apart = match *shared.collect::<Vec<_>>() {
        [] => true,
        ["number"] if a.is_integer() || b.is_integer() => a.is_below(b) || b.is_below(a),
        ["object"] => a.required().chain(b.required()).any(|name| {
            let (a, b) = (a.property(name), b.property(name));
            is_disjoint(&a, &b, depth - 1, left)
        }),
        _ => false,
    };
    is_apart
        || is_disjoint_in_each(a, b, depth - 1, left)
        || is_disjoint_in_each(b, a, depth - 1, left)
}

/// Returns true if all options of some part of `a` exclude `b`.
fn is_disjoint_in_each(a: &Parts, b: &Parts, depth: usize, left: &mut usize) -> bool {
    let lists = ["anyOf", "oneOf"].into_iter().flat_map(|keyword| {
        let lists = a
            .all
            .iter()
            .filter_map(move |keywords| keywords.get(keyword)?.as_array());
        lists.map(move |options| (keyword, options))
    });
    let mut lists = lists.collect::<Vec<_>>().into_iter();
    lists.any(|(keyword, options)| {
        let others = a.all.iter().copied();
        let others = others.filter(|other| !other.contains_key(keyword));
        let others: Vec<_> = others.collect();
        options.iter().all(|option| {
            let option = Parts::new([option], &others, a.root);
            is_disjoint(&option, b, depth, left)
        })
    })
}
