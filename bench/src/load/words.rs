//! Text for prompts: random common words.

use crate::load::random::Random;

/// Words that most vocabularies have as one token each, with the space before them.
pub(crate) const WORDS: [&str; 160] = [
    "about", "above", "across", "after", "again", "air", "all", "also", "always", "animal",
    "answer", "any", "area", "around", "away", "back", "bank", "base", "because", "before", "best",
    "better", "between", "big", "bird", "black", "blue", "board", "boat", "body", "book", "both",
    "box", "bring", "build", "call", "car", "care", "carry", "case", "cause", "change", "child",
    "city", "class", "clear", "close", "cold", "color", "come", "common", "cost", "country",
    "course", "cover", "cross", "dark", "day", "deep", "door", "down", "draw", "drive", "dry",
    "early", "earth", "east", "end", "even", "every", "eye", "face", "fact", "family", "far",
    "fast", "field", "final", "fine", "fire", "fish", "floor", "follow", "food", "force", "form",
    "four", "free", "friend", "front", "full", "game", "girl", "give", "glass", "gold", "good",
    "great", "green", "ground", "group", "grow", "hair", "half", "hand", "hard", "head", "hear",
    "heart", "heavy", "help", "high", "hold", "home", "horse", "hour", "house", "idea", "island",
    "just", "keep", "kind", "king", "land", "large", "last", "late", "laugh", "lead", "learn",
    "leave", "left", "letter", "life", "light", "line", "list", "long", "love", "machine", "main",
    "map", "mark", "material", "measure", "middle", "mind", "money", "moon", "morning", "mother",
    "mountain", "music", "name", "near", "need", "new", "night", "north", "number",
];

/// Returns a text of `words` random words.
pub(crate) fn text(random: &mut Random, words: usize) -> String {
    let mut text = String::with_capacity(7 * words);
    for number in 0..words {
        if number > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[random.below(WORDS.len())]);
    }
    text
}

/// The number of tokens of a text of random words: a constant part that the chat template adds, and
/// a part for each word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    /// Number of tokens of a prompt without words.
    pub(crate) constant: f64,
    /// Average number of tokens of a word.
    pub(crate) per_word: f64,
}

impl Measure {
    /// Derives the measure from two prompts, each given as (words, tokens).
    pub(crate) fn from_two(short: (usize, u64), long: (usize, u64)) -> Self {
        let words = long.0.saturating_sub(short.0).max(1) as f64;
        let per_word = ((long.1 as f64 - short.1 as f64) / words).max(0.1);
        Self {
            constant: (short.1 as f64 - per_word * short.0 as f64).max(0.0),
            per_word,
        }
    }

    /// Returns the number of words, at least one, that make about `tokens` tokens together with the
    /// constant part.
    pub(crate) fn words(self, tokens: usize) -> usize {
        self.words_inside(tokens.saturating_sub(self.constant.round() as usize))
    }

    /// Returns the number of words, at least one, that make about `tokens` tokens by themselves.
    pub(crate) fn words_inside(self, tokens: usize) -> usize {
        ((tokens as f64 / self.per_word).round() as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_same_for_the_same_seed() {
        let one = text(&mut Random::new(5), 20);
        assert_eq!(one, text(&mut Random::new(5), 20));
        assert_eq!(one.split(' ').count(), 20);
        assert_ne!(one, text(&mut Random::new(6), 20));
    }

    #[test]
    fn words_for_a_number_of_tokens_follow_from_two_prompts() {
        let measure = Measure::from_two((8, 32), (136, 224));
        assert_eq!(
            measure,
            Measure {
                constant: 20.0,
                per_word: 1.5
            }
        );
        assert_eq!(measure.words(320), 200);
        assert_eq!(measure.words_inside(300), 200);
        assert_eq!(measure.words(3), 1);
    }
}
