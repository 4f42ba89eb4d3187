use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::saved::PIECE;
use super::*;
use crate::backend::{Adapters, Checkpoint};

const ROWS: [u32; 2] = [4, 4];

/// Cells that say which token at which position they are of.
fn cells(tokens: &[Token], first: u32) -> SavedCells {
    let values = tokens.iter().flat_map(|token| token.to_le_bytes());
    let positions = (first..).take(tokens.len()).flat_map(u32::to_le_bytes);
    SavedCells::new(
        Arc::from(ROWS),
        tokens.len() as u32,
        values.chain(positions).collect(),
    )
}

/// Keeps the next cells of a live sequence, which these are.
fn save(tree: &mut PrefixTree, id: u64, cells: &SavedCells) {
    let id = SequenceId(id);
    let first = tree.saved_of(id);
    let pieces = tree.pieces(id, first + cells.cells());
    let cut = |piece: &Range<u32>| cells.slice(piece.start - first..piece.end - first);
    tree.save(id, pieces.iter().map(cut).collect());
}

fn group(number: u8) -> ShareGroup {
    ShareGroup {
        adapters: Adapters::default(),
        salt: Arc::from(["", "other"][usize::from(number % 2)]),
    }
}

fn computed(_: SequenceId) -> Progress {
    Progress {
        computed: u32::MAX,
        advances: true,
    }
}

/// A tree beside lists of what is in it.
#[derive(Default)]
struct Model {
    tree: PrefixTree,
    live: BTreeMap<u64, (u8, Vec<Token>, u32)>,
    /// Every prefix whose last token has saved cells.
    saved: BTreeSet<(u8, Vec<Token>)>,
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u64, u8, Vec<Token>),
    Compute(u64, u32),
    Extend(u64, Vec<Token>),
    Remove(u64),
    Save(u64, u32),
    Evict,
    Find(u8, Vec<Token>),
}

fn change() -> impl Strategy<Value = Change> {
    let tokens = |length| prop::collection::vec(0..3_i32, length);
    prop_oneof![
        3 => (0..6_u64, 0..2_u8, tokens(1..12)).prop_map(|(id, salt, tokens)| Change::Insert(id, salt, tokens)),
        2 => (0..6_u64, 0..12_u32).prop_map(|(id, cells)| Change::Compute(id, cells)),
        2 => (0..6_u64, tokens(0..4)).prop_map(|(id, tokens)| Change::Extend(id, tokens)),
        2 => (0..6_u64).prop_map(Change::Remove),
        3 => (0..6_u64, 0..12_u32).prop_map(|(id, cells)| Change::Save(id, cells)),
        1 => Just(Change::Evict),
        3 => (0..2_u8, tokens(1..14)).prop_map(|(salt, tokens)| Change::Find(salt, tokens)),
    ]
}

impl Model {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Insert(id, number, tokens) => {
                if !self.live.contains_key(&id) {
                    self.tree.insert(SequenceId(id), &group(number), &tokens);
                    self.live.insert(id, (number, tokens, 0));
                }
            }
            Change::Compute(id, cells) => {
                if let Some((_, tokens, computed)) = self.live.get_mut(&id) {
                    *computed = cells.min(tokens.len() as u32);
                }
            }
            Change::Extend(id, more) => {
                if let Some((_, tokens, _)) = self.live.get_mut(&id) {
                    tokens.extend(more);
                    self.tree.extend(SequenceId(id), tokens);
                }
            }
            Change::Remove(id) => {
                self.live.remove(&id);
                self.tree.remove(SequenceId(id));
            }
            Change::Save(id, upto) => {
                if let Some((number, tokens, _)) = self.live.get(&id) {
                    let first = self.tree.saved_of(SequenceId(id));
                    assert_eq!(first, self.saved_length(*number, tokens));
                    let upto = upto.min(tokens.len() as u32).max(first);
                    let new = cells(&tokens[first as usize..upto as usize], first);
                    save(&mut self.tree, id, &new);
                    for length in first + 1..=upto {
                        self.saved
                            .insert((*number, tokens[..length as usize].to_vec()));
                    }
                }
            }
            Change::Evict => self.evict(),
            Change::Find(number, tokens) => self.find(number, &tokens),
        }
        assert_eq!(self.tree.saved_cells(), self.saved.len() as u64);
        assert_eq!(self.tree.saved_bytes(), 8 * self.saved.len() as u64);
    }

    fn saved_length(&self, number: u8, tokens: &[Token]) -> u32 {
        let lengths = 1..=tokens.len();
        let saved =
            lengths.take_while(|length| self.saved.contains(&(number, tokens[..*length].to_vec())));
        saved.count() as u32
    }

    fn evict(&mut self) {
        let evicted = self.tree.evict();
        let before = self.saved.len();
        let tree = &mut self.tree;
        self.saved.retain(|(number, tokens)| {
            tree.find(&group(*number), tokens, computed).saved as usize == tokens.len()
        });
        assert_eq!((before - self.saved.len()) as u64, evicted);
        assert_eq!(evicted == 0, before == 0);
    }

    fn find(&mut self, number: u8, tokens: &[Token]) {
        let progress = |id: SequenceId| Progress {
            computed: self.live[&id.0].2,
            advances: id.0.is_multiple_of(2),
        };
        let found = self.tree.find(&group(number), tokens, progress);
        assert_eq!(found.saved, self.saved_length(number, tokens));
        let common = |other: &[Token]| common(other, tokens) as u32;
        let alike = || self.live.iter().filter(|(_, (salt, _, _))| *salt == number);
        let held = alike().map(|(_, (_, other, computed))| common(other).min(*computed));
        let held = held.max().unwrap_or(0);
        assert_eq!(found.live.map_or(0, |(_, tokens)| tokens), held);
        if let Some((id, tokens)) = found.live {
            let (_, other, computed) = &self.live[&id.0];
            assert!(tokens <= common(other).min(*computed));
        }
        let coming = alike().map(|(id, (_, other, computed))| {
            let length = common(other);
            if id % 2 == 0 {
                length
            } else {
                length.min(*computed)
            }
        });
        assert_eq!(found.coming, coming.max().unwrap_or(0));
        self.read_back(number, tokens, found.saved);
    }

    /// What the tree gives out for tokens is what was saved of them.
    fn read_back(&self, number: u8, tokens: &[Token], saved: u32) {
        let from = saved / 2;
        let wanted = &tokens[..saved as usize];
        let mut planes = [Vec::new(), Vec::new()];
        for part in self.tree.parts(&group(number), wanted, from) {
            for (plane, bytes) in planes.iter_mut().zip(part.planes()) {
                plane.extend_from_slice(bytes);
            }
        }
        let expected = cells(&wanted[from as usize..], from);
        assert_eq!(
            planes.concat(),
            expected.planes().collect::<Vec<_>>().concat()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_tree_agrees_with_lists_of_what_is_in_it(changes in prop::collection::vec(change(), 1..80)) {
        let mut model = Model::default();
        for change in changes {
            model.apply(change);
        }
        // Nothing is left of a tree whose sequences have gone and whose cells were given up.
        let ids: Vec<u64> = model.live.keys().copied().collect();
        for id in ids {
            model.apply(Change::Remove(id));
        }
        while !model.saved.is_empty() {
            model.apply(Change::Evict);
        }
        prop_assert!(model.tree.roots.is_empty());
        prop_assert!(model.tree.nodes.is_empty());
    }
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let mut tree = PrefixTree::default();
    let none = group(0);
    for (id, first) in [(1, 10), (2, 20), (3, 30)] {
        let tokens: Vec<Token> = (first..first + 5).collect();
        tree.insert(SequenceId(id), &none, &tokens);
        save(&mut tree, id, &cells(&tokens, 0));
        tree.remove(SequenceId(id));
    }
    let one: Vec<Token> = (10..15).collect();
    assert_eq!(tree.find(&none, &one, computed).saved, 5);
    assert_eq!(tree.evict(), 5);
    let two: Vec<Token> = (20..25).collect();
    assert_eq!(tree.find(&none, &two, computed).saved, 0);
    assert_eq!(tree.find(&none, &one, computed).saved, 5);
}

#[test]
fn a_sequence_that_says_again_what_is_saved_cuts_nothing() {
    let mut tree = PrefixTree::default();
    let tokens: Vec<Token> = (0..1_000).collect();
    let parts = |tree: &PrefixTree| tree.parts(&group(0), &tokens, 0).len();
    tree.insert(SequenceId(1), &group(0), &tokens);
    save(&mut tree, 1, &cells(&tokens, 0));
    tree.remove(SequenceId(1));
    assert_eq!(parts(&tree), 1_000_usize.div_ceil(PIECE as usize));

    tree.insert(SequenceId(2), &group(0), &tokens[..10]);
    for length in 11..=tokens.len() {
        tree.extend(SequenceId(2), &tokens[..length]);
        assert_eq!(tree.saved_of(SequenceId(2)), length as u32);
    }
    tree.remove(SequenceId(2));
    assert_eq!(parts(&tree), 1_000_usize.div_ceil(PIECE as usize));
}

#[test]
fn the_end_of_a_long_sequence_goes_before_its_beginning() {
    let mut tree = PrefixTree::default();
    let tokens: Vec<Token> = (0..1_000).collect();
    tree.insert(SequenceId(1), &group(0), &tokens);
    save(&mut tree, 1, &cells(&tokens, 0));
    tree.remove(SequenceId(1));
    let evicted = tree.evict();
    assert!(evicted > 0 && evicted <= u64::from(PIECE), "{evicted}");
    let left = tree.find(&group(0), &tokens, computed).saved;
    assert_eq!(u64::from(left), 1_000 - evicted);
}

fn checkpoint(bytes: usize) -> Checkpoint {
    Checkpoint(vec![0; bytes].into())
}

/// A tree with the cells of two sequences that part at 50, and their checkpoints.
fn two_branches(checkpoints: [&[u32]; 2]) -> (PrefixTree, [Vec<Token>; 2]) {
    let mut tree = PrefixTree::default();
    let branch = |first| -> Vec<Token> { (0..50).chain(first..first + 50).collect() };
    let branches = [branch(100), branch(200)];
    for ((id, tokens), places) in (1..).zip(&branches).zip(checkpoints) {
        tree.insert(SequenceId(id), &group(0), tokens);
        for at in places {
            tree.keep(SequenceId(id), *at, checkpoint(10));
        }
        let first = tree.saved_of(SequenceId(id));
        save(&mut tree, id, &cells(&tokens[first as usize..], first));
        tree.remove(SequenceId(id));
    }
    (tree, branches)
}

#[test]
fn the_last_checkpoint_of_a_path_is_found_where_its_cells_are() {
    let (mut tree, [one, two]) = two_branches([&[30, 80], &[50, 100]]);
    let mut found = |tokens: &[Token]| tree.find(&group(0), tokens, computed).checkpoint;
    assert_eq!([found(&one), found(&two)], [80, 100]);
    assert_eq!([found(&one[..79]), found(&two[..50])], [50, 50]);
    assert_eq!([found(&one[..49]), found(&two[..29])], [30, 0]);
    assert_eq!(tree.checkpoint_bytes(), 40);
    assert!(tree.checkpoint(&group(0), &two[..50]).is_some());
    assert!(tree.checkpoint(&group(0), &two[..51]).is_none());
}

#[test]
fn cells_go_with_the_last_checkpoint_of_their_branch() {
    let (mut tree, [one, two]) = two_branches([&[30, 80], &[50, 90]]);
    tree.used(&group(0), &one[..30]);
    // The oldest are at 80, 50 and 90.
    tree.drop_checkpoint();
    assert_eq!(tree.find(&group(0), &one, computed).saved, 50);
    tree.drop_checkpoint();
    assert_eq!(tree.find(&group(0), &two, computed).saved, 100);
    tree.drop_checkpoint();
    assert_eq!(tree.find(&group(0), &two, computed).saved, 30);
    tree.drop_checkpoint();
    assert_eq!((tree.saved_cells(), tree.checkpoint_bytes()), (0, 0));
    assert!(tree.roots.is_empty());
}

#[test]
fn checkpoints_go_with_their_cells() {
    let (mut tree, [_, two]) = two_branches([&[40, 100], &[100]]);
    assert_eq!(tree.evict(), 50);
    assert_eq!(tree.find(&group(0), &two, computed).checkpoint, 100);
    assert_eq!(tree.checkpoints(), 2);
    // The beginning is left as far as its checkpoint.
    assert_eq!(tree.evict(), 60);
    assert_eq!((tree.saved_cells(), tree.checkpoints()), (40, 1));
}

#[test]
fn a_live_sequence_holds_checkpoints_whose_cells_are_not_saved() {
    let mut tree = PrefixTree::default();
    let tokens: Vec<Token> = (0..100).collect();
    tree.insert(SequenceId(1), &group(0), &tokens);
    tree.keep(SequenceId(1), 60, checkpoint(10));
    let halfway = |_| Progress {
        computed: 50,
        advances: true,
    };
    let found = tree.find(&group(0), &tokens, halfway);
    assert_eq!((found.checkpoint, found.known), (0, 100));
    assert_eq!(found.ahead, Some((SequenceId(1), 100)));
    let found = tree.find(&group(0), &tokens[..99], computed);
    assert_eq!((found.checkpoint, found.ahead), (60, None));
    assert_eq!(tree.checkpoint_of(SequenceId(1), 59), 0);
    assert_eq!(tree.checkpoint_of(SequenceId(1), 60), 60);
    tree.remove(SequenceId(1));
    assert_eq!((tree.checkpoints(), tree.checkpoint_bytes()), (0, 0));
}
