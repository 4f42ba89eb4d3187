//! The replacements that a unigram tokenizer makes in a text before it looks for tokens: a map of
//! byte sequences in the model's file, as a XOR-compressed double array.

/// A bit of a unit that stands for a replacement instead of a byte.
const IS_REPLACEMENT: u32 = 1 << 31;

/// The sequences that are replaced, as a trie.
#[derive(Debug)]
pub(super) struct Charsmap {
    units: Vec<u32>,
}

/// A sequence of bytes that the trie has, as far as it is looked at.
struct Node {
    /// The index to which the next byte is added by XOR.
    base: usize,
    /// The last byte; `None` for the empty sequence.
    last: Option<u8>,
}

impl Charsmap {
    /// Reads the trie of a map, in whose file it follows its size.
    pub(super) fn new(map: &[u8]) -> Self {
        let trie = map.split_first_chunk().and_then(|(size, rest)| {
            let size = u32::from_le_bytes(*size) as usize;
            rest.get(..size)
        });
        let (units, _) = trie.unwrap_or_default().as_chunks();
        Self {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
        }
    }

    /// Returns true if a visible ASCII character, a space and an ASCII letter in a row stay as they
    /// are, whatever is around them. So no sequence is one of these alone, has a space behind its
    /// first byte, or a letter behind a space.
    pub(super) fn keeps_words(&self) -> bool {
        let root = |unit: &u32| Node {
            base: base(*unit),
            last: None,
        };
        let mut nodes: Vec<Node> = self.units.first().map(root).into_iter().collect();
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
                if unit & (IS_REPLACEMENT | 0xff) != u32::from(byte) {
                    continue;
                }
                let is_whole = unit & 1 << 8 != 0;
                let changes = match node.last {
                    None => is_whole && (byte == b' ' || byte.is_ascii_graphic()),
                    Some(last) => byte == b' ' || (last == b' ' && byte.is_ascii_alphabetic()),
                };
                if changes {
                    return false;
                }
                nodes.push(Node {
                    base: index ^ base(*unit),
                    last: Some(byte),
                });
            }
        }
        true
    }
}

/// The distance from a unit to those of the bytes that follow.
fn base(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}
