//! Replacements that a unigram tokenizer makes in a text before it looks for tokens: a map of byte
//! sequences in the model's file, as a XOR-compressed double array.

/// Flag of a unit that stands for a replacement instead of a byte.
const IS_REPLACEMENT: u32 = 1 << 31;

/// The sequences that are replaced, as a trie.
#[derive(Clone, Debug, Default)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    /// The replacements, each with a NUL behind it.
    texts: Vec<u8>,
}

/// A node of the trie, during a search.
struct TrieNode {
    /// The index to which the next byte is added by XOR.
    base: usize,
    /// The last byte; `None` for the empty sequence.
    last: Option<u8>,
}

impl Charsmap {
    /// Reads a map: the size of its trie, the trie, and the replacements.
    pub(super) fn new(map: &[u8]) -> Self {
        let parts = map.split_first_chunk().and_then(|(size, rest)| {
            let size = u32::from_le_bytes(*size) as usize;
            rest.split_at_checked(size)
        });
        let (trie, texts) = parts.unwrap_or_default();
        let (units, _) = trie.as_chunks();
        Self {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
            texts: texts.to_owned(),
        }
    }

    /// Counts the bytes of a text after the replacements.
    pub(super) fn replaced_bytes(&self, text: &str) -> usize {
        let (mut left, mut bytes) = (text, 0);
        while let Some(character) = left.chars().next() {
            let kept = (character.len_utf8(), character.len_utf8());
            let (taken, given) = self.longest(left.as_bytes()).unwrap_or(kept);
            bytes += given;
            left = left.get(taken..).unwrap_or_default();
        }
        bytes
    }

    /// The sizes of the longest sequence at the beginning of a text and of its replacement.
    fn longest(&self, text: &[u8]) -> Option<(usize, usize)> {
        let mut node = base(*self.units.first()?);
        let mut found = None;
        for (index, byte) in text.iter().enumerate().take_while(|(_, byte)| **byte != 0) {
            let child = node ^ usize::from(*byte);
            let Some(unit) = self.units.get(child).filter(|unit| is_of(**unit, *byte)) else {
                break;
            };
            node = child ^ base(*unit);
            if is_whole(*unit) {
                let at = (self.units.get(node)? & !IS_REPLACEMENT) as usize;
                let length = self.texts.get(at..)?.iter().position(|byte| *byte == 0)?;
                found = Some((index + 1, length));
            }
        }
        found
    }

    /// Returns true if a visible ASCII character, a space and an ASCII letter in a row stay as they
    /// are, whatever is around them. So no sequence is one of these alone, has a space behind its
    /// first byte, or a letter behind a space.
    pub(super) fn keeps_words(&self) -> bool {
        let root = |unit: &u32| TrieNode {
            base: base(*unit),
            last: None,
        };
        let mut nodes: Vec<TrieNode> = self.units.first().map(root).into_iter().collect();
        let mut seen = 0;
        while let Some(node) = nodes.pop() {
            seen += 1;
            if seen > self.units.len() {
                return false; // it is no tree
            }
            for byte in 1..=u8::MAX {
                let index = node.base ^ usize::from(byte);
                let Some(unit) = self.units.get(index) else {
                    continue;
                };
                if !is_of(*unit, byte) {
                    continue;
                }
                let changes = match node.last {
                    None => is_whole(*unit) && (byte == b' ' || byte.is_ascii_graphic()),
                    Some(last) => byte == b' ' || (last == b' ' && byte.is_ascii_alphabetic()),
                };
                if changes {
                    return false;
                }
                nodes.push(TrieNode {
                    base: index ^ base(*unit),
                    last: Some(byte),
                });
            }
        }
        true
    }
}

/// Returns true if a unit stands for this byte.
fn is_of(unit: u32, byte: u8) -> bool {
    unit & (IS_REPLACEMENT | 0xff) == u32::from(byte)
}

/// Returns true if a sequence ends with the byte of a unit.
fn is_whole(unit: u32) -> bool {
    unit & 1 << 8 != 0
}

/// Returns the offset from a unit to the units of the bytes that follow.
fn base(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}
