//! The nodes to look at: a bit set. The highest number comes first, because it is nearest to the outputs: what is on its
//! way leaves before more comes in. A node that is in the set for nothing costs one look.

use smallvec::{SmallVec, smallvec};

#[derive(Debug)]
pub(super) struct ReadySet {
    words: SmallVec<[u64; 2]>,
}

impl ReadySet {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            words: smallvec![0; nodes.div_ceil(64)],
        }
    }

    pub(super) fn insert(&mut self, node: u16) {
        let node = usize::from(node);
        self.words[node / 64] |= 1 << (node % 64);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Takes out the highest.
    pub(super) fn pop(&mut self) -> Option<u16> {
        let (index, word) = self
            .words
            .iter_mut()
            .enumerate()
            .rev()
            .find(|(_, word)| **word != 0)?;
        let bit = 63 - word.leading_zeros();
        *word &= !(1 << bit);
        Some((index * 64) as u16 + bit as u16)
    }
}
