//! An image or a sound in the form that a model reads.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::backend::{Piece, PreparedTile, TileShape};
use crate::lock::lock;
use crate::protocol::{SubmitError, Token};

/// An image or a sound in the form that a model reads: tokens, and tiles that have embeddings.
#[derive(Debug)]
pub struct Medium(Vec<MediumPart>);

#[derive(Debug)]
enum MediumPart {
    Text(Vec<Token>),
    Tile(Arc<Tile>),
}

impl Medium {
    pub(super) fn new(pieces: Vec<Piece>) -> Self {
        let part = |piece| match piece {
            Piece::Text(tokens) => MediumPart::Text(tokens),
            Piece::Tile(prepared) => {
                MediumPart::Tile(Arc::new(Tile::new(prepared.shape(), Some(prepared))))
            }
        };
        Self(pieces.into_iter().map(part).collect())
    }

    /// Creates a medium from embeddings of `width` numbers, one position after the other, made by
    /// the caller instead of the model's projector. `None` unless there is at least one and all
    /// numbers are finite. A prompt can end with such a medium.
    ///
    /// Prompts share computed cells of it only if they use clones of the same `Arc`; equal numbers
    /// alone do not make two media the same. Cells of a prompt that begins with it are not kept.
    pub fn from_embeddings(width: usize, embeddings: impl Into<Arc<[f32]>>) -> Option<Self> {
        let embeddings = embeddings.into();
        let positions = embeddings.len().checked_div(width)?;
        let positions = u32::try_from(positions).ok().filter(|count| *count > 0)?;
        let is_whole = positions as usize * width == embeddings.len();
        if !is_whole || embeddings.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let shape = TileShape {
            positions,
            ..TileShape::default()
        };
        let tile = Tile::new(shape, None);
        tile.embeddings.get_or_init(|| embeddings);
        Some(Self(vec![MediumPart::Tile(Arc::new(tile))]))
    }

    /// Returns its tiles, in the order of their positions.
    pub fn tiles(&self) -> impl Iterator<Item = &Arc<Tile>> {
        self.0.iter().filter_map(|part| match part {
            MediumPart::Text(_) => None,
            MediumPart::Tile(tile) => Some(tile),
        })
    }

    /// Number of positions that its tiles take in a prompt.
    pub fn positions(&self) -> usize {
        self.tiles().map(|tile| tile.shape.positions as usize).sum()
    }

    /// Appends the medium to a prompt, and its tiles to the list of tiles in that prompt.
    pub fn append_to(&self, prompt: &mut Vec<Token>, tiles: &mut Vec<PlacedTile>) {
        for part in &self.0 {
            match part {
                MediumPart::Text(tokens) => prompt.extend_from_slice(tokens),
                MediumPart::Tile(tile) => {
                    tiles.push(PlacedTile {
                        at: prompt.len() as u32,
                        tile: Arc::clone(tile),
                    });
                    let end = prompt.len() + tile.shape.positions as usize;
                    prompt.resize(end, tile.placeholder);
                }
            }
        }
    }
}

/// An image, a sound, or a part of one that is encoded at once.
pub struct Tile {
    placeholder: Token,
    shape: TileShape,
    /// Input of the encoder; `None` once the tile is encoded.
    prepared: Mutex<Option<Box<dyn PreparedTile>>>,
    embeddings: OnceLock<Arc<[f32]>>,
    /// True if it came with its embeddings.
    is_given: bool,
}

/// Number of tiles so far. After 2^31 of them placeholders repeat, when the first tiles are long
/// gone.
static TILES: AtomicU32 = AtomicU32::new(0);

impl Tile {
    fn new(shape: TileShape, prepared: Option<Box<dyn PreparedTile>>) -> Self {
        let number = TILES.fetch_add(1, Ordering::Relaxed) & i32::MAX as u32;
        Self {
            placeholder: -1 - number as Token,
            shape,
            is_given: prepared.is_none(),
            prepared: Mutex::new(prepared),
            embeddings: OnceLock::new(),
        }
    }

    /// Returns the embeddings, one position after the other; `None` before they are computed.
    pub fn embeddings(&self) -> Option<&[f32]> {
        self.embeddings.get().map(|embeddings| &**embeddings)
    }

    /// Width of the embedding of a position; `None` before they are computed.
    pub fn width(&self) -> Option<usize> {
        Some(self.embeddings()?.len() / self.shape.positions.max(1) as usize)
    }

    /// Returns true if the tile is part of a sound.
    pub fn is_sound(&self) -> bool {
        self.shape.is_sound
    }

    /// Returns true if its embeddings came with it, so that no projector computes them.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    /// Returns true if its embeddings are computed.
    pub fn is_encoded(&self) -> bool {
        self.embeddings.get().is_some()
    }

    /// Computes the embeddings if they are missing. Returns true if it did.
    pub(super) fn encode(&self) -> Result<bool, String> {
        // A panic leaves the prepared tile unchanged.
        let mut prepared = lock(&self.prepared);
        let Some(from) = &*prepared else {
            return Ok(false);
        };
        let embeddings = from.encode()?;
        if embeddings.iter().any(|number| !number.is_finite()) {
            return Err("it has no finite embedding in this model".to_owned());
        }
        self.embeddings.get_or_init(|| embeddings.into());
        *prepared = None;
        Ok(true)
    }
}

impl fmt::Debug for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tile")
            .field("placeholder", &self.placeholder)
            .field("shape", &self.shape)
            .field("is_encoded", &self.is_encoded())
            .finish_non_exhaustive()
    }
}

/// A tile at a position in a prompt.
#[derive(Clone, Debug)]
pub struct PlacedTile {
    at: u32,
    tile: Arc<Tile>,
}

impl PlacedTile {
    /// The tile, shared with other prompts.
    pub fn tile(&self) -> &Arc<Tile> {
        &self.tile
    }

    /// First position of the tile.
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// First position behind the tile.
    pub(crate) fn end(&self) -> u32 {
        self.at + self.tile.shape.positions
    }

    /// Positions and properties of the tile.
    pub(crate) fn shape(&self) -> &TileShape {
        &self.tile.shape
    }

    /// Returns the embeddings of the positions from `from` on, at most `most`, and their number.
    /// The tile must be encoded, and `from` inside it.
    pub(crate) fn embeddings(&self, from: u32, most: u32) -> (&[f32], u32) {
        let all = self.tile.embeddings().unwrap_or_default();
        let width = self.tile.width().unwrap_or(0);
        let count = (self.end() - from).min(most);
        let first = (from - self.at) as usize;
        (&all[first * width..][..count as usize * width], count)
    }
}

impl PartialEq for PlacedTile {
    /// Tiles with the same placeholder are the same tile.
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.tile.placeholder) == (other.at, other.tile.placeholder)
    }
}

impl Eq for PlacedTile {}

/// Checks that a prompt consists of tokens of the vocabulary, as `is_token` says, and of these
/// tiles.
///
/// # Errors
/// The first position with neither.
pub(crate) fn check_prompt(
    prompt: &[Token],
    tiles: &[PlacedTile],
    n_vocab: usize,
    is_token: impl Fn(Token) -> bool,
) -> Result<(), SubmitError> {
    let wrong = |position: usize| {
        Err(SubmitError::InvalidToken {
            token: prompt.get(position).copied().unwrap_or_default(),
            position,
            n_vocab,
        })
    };
    let check = |mut positions: Range<usize>, is_right: &dyn Fn(Token) -> bool| {
        let found = positions.find(|position| !is_right(prompt[*position]));
        found.map_or(Ok(()), wrong)
    };
    let mut position = 0;
    for placed in tiles {
        let (at, end) = (placed.at as usize, placed.end() as usize);
        if at < position || end > prompt.len() {
            return wrong(at);
        }
        check(position..at, &is_token)?;
        check(at..end, &|token| token == placed.tile.placeholder)?;
        position = end;
    }
    check(position..prompt.len(), &is_token)
}
