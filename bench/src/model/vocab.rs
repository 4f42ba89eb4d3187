//! A vocabulary of a real size from the small one of the shipped model.
//!
//! The tokens that are added are words: each is the merge of two tokens that exist, so that a text
//! of them is tokenized into the very tokens that it was made of. A model that generates only such
//! words has replies that can be sent back in a chat without becoming other tokens.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use graphmill_testkit::gguf::{Gguf, I32, LIST, list};

use crate::load::random::Random;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
/// The mark of a word's beginning in a byte-level vocabulary: the byte of the space.
const SPACE: char = 'Ġ';
const NORMAL: u32 = 1;

/// Adds words to the vocabulary in `file` until it has `size` tokens, first those of `wanted`
/// that two tokens make. Returns how many tokens there were before.
///
/// # Errors
///
/// If the file has no byte-level BPE vocabulary or one that is too small or too large.
pub(super) fn extend(
    file: &mut Gguf,
    size: usize,
    wanted: &[&str],
    seed: u64,
) -> io::Result<usize> {
    for key in [TOKENS, TYPES, MERGES] {
        if file.value(key).is_none() {
            return Err(io::Error::other(format!("the vocabulary has no `{key}`")));
        }
    }
    let mut tokens = file.texts(TOKENS);
    let mut merges = file.texts(MERGES);
    let base = tokens.len();
    let added = words(&tokens, &merges, size, wanted, seed)?;
    for (left, right) in added {
        tokens.push(format!("{left}{right}"));
        merges.push(format!("{left} {right}"));
    }
    let mut types = file.numbers(TYPES);
    types.resize(tokens.len(), NORMAL.to_le_bytes());
    file.set(TYPES, LIST, list(I32, &types));
    file.set_texts(TOKENS, &tokens);
    file.set_texts(MERGES, &merges);
    Ok(base)
}

/// The words that are added, each as the two tokens that make it.
fn words(
    tokens: &[String],
    merges: &[String],
    size: usize,
    wanted: &[&str],
    seed: u64,
) -> io::Result<Vec<(String, String)>> {
    let ranks = merges.iter().enumerate().filter_map(|(rank, merge)| {
        let pair = merge.split_once(' ')?;
        Some((pair, rank))
    });
    let ranks: HashMap<(&str, &str), usize> = ranks.collect();
    let mut known: HashSet<String> = tokens.iter().cloned().collect();
    let is_lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    let begins = |token: &&String| {
        let rest = token.strip_prefix(SPACE);
        rest.is_some_and(|rest| !rest.is_empty() && is_lower(rest))
    };
    let starts: Vec<&String> = tokens.iter().filter(begins).collect();
    let ends: Vec<&String> = tokens.iter().filter(|token| is_lower(token)).collect();
    let missing = size
        .checked_sub(tokens.len())
        .ok_or_else(|| io::Error::other(format!("the vocabulary has more than {size} tokens")))?;
    let mut added = Vec::with_capacity(missing);
    let mut add = |word: String| {
        if added.len() < missing
            && !known.contains(&word)
            && let [left, right] = tokenize(&word, &ranks).as_slice()
        {
            added.push((left.clone(), right.clone()));
            known.insert(word);
        }
        added.len() == missing
    };
    for word in wanted {
        add(format!("{SPACE}{word}"));
    }
    let mut random = Random::new(seed);
    // Most pairs are new words; where they are not, the vocabulary is too small for the size.
    let tries = 4 * starts.len() * ends.len();
    let full = (0..tries).any(|_| {
        let start = starts[random.below(starts.len())];
        let end = ends[random.below(ends.len())];
        add(format!("{start}{end}"))
    });
    if missing > 0 && !full {
        return Err(io::Error::other(format!(
            "the vocabulary's file has too few tokens to make {size} of them"
        )));
    }
    Ok(added)
}

/// The tokens of a word: adjacent ones are merged, the pair of the lowest rank first.
fn tokenize(word: &str, ranks: &HashMap<(&str, &str), usize>) -> Vec<String> {
    let mut parts: Vec<String> = word.chars().map(String::from).collect();
    loop {
        let rank = |at: usize| ranks.get(&(parts[at].as_str(), parts[at + 1].as_str()));
        let pairs = 0..parts.len().saturating_sub(1);
        let ranked = pairs.filter_map(|at| rank(at).map(|rank| (rank, at)));
        let Some((_, at)) = ranked.min() else {
            return parts;
        };
        let right = parts.remove(at + 1);
        parts[at].push_str(&right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Gguf {
        let mut file = Gguf::default();
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        file.set_texts(TOKENS, &texts(&["a", "b", "c", "d", "Ġ", "Ġa", "bc", "Ġd"]));
        file.set(TYPES, LIST, list(I32, &[NORMAL.to_le_bytes(); 8]));
        file.set_texts(MERGES, &texts(&["Ġ a", "b c", "Ġ d"]));
        file
    }

    #[test]
    fn added_words_are_merges_that_no_other_merge_gets_in_the_way_of() {
        let mut file = vocabulary();
        assert_eq!(extend(&mut file, 12, &["abc", "abcd"], 1).expect("room"), 8);
        let (tokens, merges) = (file.texts(TOKENS), file.texts(MERGES));
        let types = file.numbers(TYPES);
        assert_eq!((tokens.len(), types.len(), merges.len()), (12, 12, 7));
        assert_eq!(tokens[8], "Ġabc");
        let ranks: HashMap<_, _> = merges
            .iter()
            .enumerate()
            .filter_map(|(rank, merge)| Some((merge.split_once(' ')?, rank)))
            .collect();
        for token in &tokens[8..] {
            assert_eq!(tokenize(token, &ranks), std::slice::from_ref(token));
        }
    }

    #[test]
    fn a_size_that_cannot_be_reached_is_an_error() {
        assert!(extend(&mut vocabulary(), 1000, &[], 1).is_err());
        assert!(extend(&mut vocabulary(), 4, &[], 1).is_err());
        assert!(extend(&mut Gguf::default(), 4, &[], 1).is_err());
    }
}
