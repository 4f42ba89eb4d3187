//! A backend that follows a script instead of a model.
//!
//! Its cells are checked as strictly as a model's: a token needs the cells of all tokens before it
//! in its slot, cells of a pool can be shared, and restored cells must match those saved at these
//! positions. With `checkpoints` it behaves like a model with recurrent layers: a sequence cannot
//! go back, and continues from the cells of another one only with its checkpoint.
//!
//! Like a model's, its next token is a function of the sequence's tokens alone, so cells can be
//! dropped, recomputed, shared and batched in any way without changing a text. Its vocabulary has
//! the 256 bytes, a few `ChatML` specials and those of the script.
//!
//! In an assistant's turn (after one of the script's `turns`) it gives the first reply whose `when`
//! occurs in the text before that turn. Without such a reply it repeats the last user message if
//! that is in `ChatML`, and fails otherwise. Outside of a turn it counts: the next byte is the last
//! one plus one. With the first adapter of its spec it goes one letter further in the alphabet for
//! each letter of a reply, with the second two, and so on, each times its scale.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod cells;
mod open;
mod reply;
mod script;
mod vocab;

use cells::{Cell, SlotContent};
pub(crate) use open::open;
pub use script::{Reply, Script, Then};
use vocab::ByteVocab;

use super::{
    Adapters, Backend, BatchToken, Capacity, Checkpoint, DecodeError, DraftSupport, KvLayout,
    Reuse, SaveError, SavedCells, SavedPart, Slot,
};
use crate::model::files::FileState;
use crate::model::info::BackendInfo;
use crate::model::vocab::Vocab;
use crate::protocol::{LoadError, Token};
use crate::settings::LlmEngineSpec;

const IM_START: Token = 256;
const IM_END: Token = 257;
const END_OF_TEXT: Token = 258;
/// The special tokens that every script has, in their order.
const SPECIALS: [&str; 3] = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];
/// The beginning of the assistant's turn if the script does not give it.
const TURN: &str = "<|im_start|>assistant\n";

/// The backend that plays a [`Script`].
#[derive(Debug)]
pub struct ScriptedBackend {
    script: Script,
    vocab: Arc<ByteVocab>,
    /// The replies of the script, as tokens.
    answers: Vec<Vec<Token>>,
    /// The beginnings of the assistant's turn, as tokens.
    turns: Vec<Vec<Token>>,
    capacity: Capacity,
    slots: Vec<SlotContent>,
    cells: Vec<Cell>,
    free_cells: Vec<usize>,
    /// Sets of adapters that cells were computed with. Saved cells have an index into this list.
    adapters: Vec<Adapters>,
    steps: u64,
    logits: Vec<f32>,
    /// True if the next call panics, too.
    dies: AtomicBool,
    /// True if a cell has NaN. Then all logits are NaN until the cells are cleared.
    spoiled: AtomicBool,
}

/// Bytes of a saved cell in each plane: its token, its position, and the index of its adapters.
const SAVED_ROWS: [u32; 3] = [4, 4, 4];
/// Default budget for saved cells, in bytes of host memory.
const HOST_CACHE_BYTES: u64 = 1 << 20;

impl ScriptedBackend {
    /// Makes a backend that plays a script, and the vocabulary that goes with it.
    pub fn new(script: Script, spec: &LlmEngineSpec) -> (Self, Arc<dyn Vocab>) {
        let context = script.context.min(spec.max_context.unwrap_or(u32::MAX));
        let capacity = Capacity {
            total_cells: script.cells,
            cells_per_sequence: context.min(script.cells),
            max_sequences: spec.max_num_seqs,
            max_batch_tokens: spec.max_num_batched_tokens,
            embedding_width: None,
            vector_width: None,
            layout: if spec.plugin_config.kv_unified == Some(false) {
                KvLayout::PerSequence
            } else {
                KvLayout::Unified
            },
            reuse: if script.checkpoints {
                Reuse::Checkpoints
            } else {
                Reuse::Cells
            },
            host_cache_bytes: HOST_CACHE_BYTES,
        };
        let specials = SPECIALS.into_iter().map(str::to_owned);
        let vocab = Arc::new(ByteVocab {
            name: script.name.clone(),
            chat_template: script.chat_template.clone(),
            context: capacity.cells_per_sequence as usize,
            specials: specials.chain(script.special_tokens.clone()).collect(),
        });
        let answer = |reply: &Reply| vocab.read(&reply.text, SPECIALS.len());
        let answers = script.replies.iter().map(answer).collect();
        let said = script.turns.iter().filter(|turn| !turn.is_empty());
        let mut turns: Vec<_> = said.map(|turn| vocab.read(turn, 0)).collect();
        if turns.is_empty() {
            turns.push(vocab.read(TURN, 0));
        }
        turns.sort_by_key(Vec::len);
        let backend = Self {
            script,
            vocab: Arc::clone(&vocab),
            answers,
            turns,
            capacity,
            slots: vec![SlotContent::default(); capacity.max_sequences as usize],
            cells: Vec::new(),
            free_cells: Vec::new(),
            adapters: Vec::new(),
            steps: 0,
            logits: Vec::new(),
            dies: AtomicBool::new(false),
            spoiled: AtomicBool::new(false),
        };
        (backend, vocab)
    }

    /// Reads the script that the spec names.
    ///
    /// # Errors
    /// [`LoadError`] if the file cannot be read or is not a script.
    pub fn load(spec: &LlmEngineSpec) -> Result<(Self, Arc<dyn Vocab>), LoadError> {
        let path = &spec.model;
        FileState::read(path)?;
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::read(path, source))?;
        let script = serde_json::from_str(&text).map_err(|error| {
            let (path, message) = (path.clone(), error.to_string());
            if error.is_data() {
                LoadError::Script { path, message }
            } else {
                LoadError::Model { path, message }
            }
        })?;
        Ok(Self::new(script, spec))
    }
}

impl Backend for ScriptedBackend {
    fn info(&self) -> BackendInfo {
        BackendInfo {
            backend: "script",
            ..BackendInfo::default()
        }
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn n_vocab(&self) -> usize {
        self.vocab.n_vocab()
    }

    fn decode(&mut self, batch: &[BatchToken]) -> Result<(), DecodeError> {
        self.steps += 1;
        if self.script.step_micros > 0 {
            std::thread::sleep(Duration::from_micros(self.script.step_micros));
        }
        assert!(
            !self.script.panic_steps.contains(&self.steps),
            "scripted panic at step {}",
            self.steps
        );
        if self.script.fail_steps.contains(&self.steps) {
            let message = format!("scripted failure at step {}", self.steps);
            return Err(DecodeError::Failed(message));
        }
        assert!(
            batch.len() <= self.capacity.max_batch_tokens as usize,
            "the batch exceeds its limit"
        );
        if self.cells_used() + batch.len() > self.capacity.total_cells as usize {
            return Err(DecodeError::NoCells);
        }
        self.logits.clear();
        for entry in batch {
            assert_eq!(
                self.slots[entry.slot.0 as usize].cells.len(),
                entry.position as usize,
                "a token must follow its slot's last cell"
            );
            self.fill(entry.slot, entry.position, entry.token, entry.adapters);
            if entry.logits {
                let history = self.history(entry.slot, entry.adapters);
                let token = self.next_token(history, entry.adapters)?;
                let row = self.logits.len();
                self.logits.resize(row + self.vocab.n_vocab(), 0.0);
                self.logits[row + token as usize] = 20.0;
            }
        }
        if self.spoiled.load(Ordering::Relaxed) {
            self.logits.fill(f32::NAN);
        }
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &self.logits
    }

    fn draft_support(&self) -> DraftSupport {
        match self.capacity.reuse {
            Reuse::Checkpoints => DraftSupport::Never,
            _ => DraftSupport::AnyLength,
        }
    }

    fn remove(&mut self, slot: Slot, from: u32) {
        assert!(
            !self.script.checkpoints || from == 0,
            "a sequence does not go back"
        );
        self.free(slot, from as usize..usize::MAX);
        let held = &mut self.slots[slot.0 as usize];
        held.cells.truncate(from as usize);
        held.tokens.truncate(from as usize);
    }

    fn remove_before(&mut self, slot: Slot, position: u32) {
        self.free(slot, 0..position as usize);
    }

    fn share(&mut self, from: Slot, to: Slot, cells: u32) {
        assert_eq!(
            (self.capacity.layout, self.capacity.reuse),
            (KvLayout::Unified, Reuse::Cells),
            "streams share nothing"
        );
        for position in 0..cells {
            let cell = self.slots[from.0 as usize].cells[position as usize];
            let cell = cell.expect("the donor has the cell");
            self.put(to, position, cell);
            self.cells[cell].slots += 1;
        }
    }

    fn save(&mut self, slot: Slot, pieces: &[Range<u32>]) -> Result<Vec<SavedCells>, SaveError> {
        let held = &self.slots[slot.0 as usize].cells;
        let save = |piece: &Range<u32>| {
            let places = held[piece.start as usize..piece.end as usize].iter();
            let cells: Vec<&Cell> = places
                .map(|place| &self.cells[place.expect("only cells that are there are saved")])
                .collect();
            let tokens = cells.iter().map(|cell| cell.token as u32);
            let positions = cells.iter().map(|cell| cell.position);
            let adapters = cells.iter().map(|cell| cell.adapters as u32);
            let numbers = tokens.chain(positions).chain(adapters);
            let bytes = numbers.flat_map(u32::to_le_bytes).collect();
            SavedCells::new(Arc::from(SAVED_ROWS), piece.len() as u32, bytes)
        };
        Ok(pieces.iter().map(save).collect())
    }

    fn checkpoint(&mut self, slot: Slot) -> Result<Checkpoint, SaveError> {
        Ok(Checkpoint(self.state(slot)))
    }

    fn restore(
        &mut self,
        slot: Slot,
        from: u32,
        parts: &[SavedPart<'_>],
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(), SaveError> {
        assert!(
            self.slots[slot.0 as usize].cells.is_empty(),
            "only an empty slot is restored"
        );
        let mut position = from;
        for part in parts {
            let planes: Vec<&[u8]> = part.planes().collect();
            let numbers = |plane: usize| {
                let (numbers, _) = planes[plane].as_chunks::<4>();
                numbers.iter().map(|bytes| i32::from_le_bytes(*bytes))
            };
            for ((token, saved_at), adapters) in numbers(0).zip(numbers(1)).zip(numbers(2)) {
                assert_eq!(saved_at as u32, position, "cells go back where they were");
                let adapters = self.adapters[adapters as usize];
                self.fill(slot, position, token, adapters);
                position += 1;
            }
        }
        assert!(
            self.cells_used() <= self.capacity.total_cells as usize,
            "more cells are restored than are free"
        );
        let state = self.script.checkpoints.then(|| self.state(slot));
        assert_eq!(
            checkpoint.map(|checkpoint| &checkpoint.0),
            state.as_ref(),
            "the checkpoint is of these cells"
        );
        Ok(())
    }

    fn relocate(&mut self, from: Slot, to: Slot) -> Result<(), SaveError> {
        assert_eq!(
            self.capacity.layout,
            KvLayout::PerSequence,
            "a pool has no use for an order of slots"
        );
        assert!(
            self.slots[to.0 as usize].cells.is_empty(),
            "cells are moved to an empty slot"
        );
        self.slots.swap(from.0 as usize, to.0 as usize);
        Ok(())
    }

    fn clear(&mut self) {
        assert!(!self.dies.load(Ordering::Relaxed), "scripted death");
        self.spoiled.store(false, Ordering::Relaxed);
        self.slots.fill(SlotContent::default());
        self.cells.clear();
        self.free_cells.clear();
    }
}
