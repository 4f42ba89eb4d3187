//! The format in which llama.cpp writes the cells of a sequence: parsing into [`SavedCells`], and
//! building from them.
//!
//! Every number is in the machine's byte order: a magic number and the sequence's id, then caches.
//! Most models have one. Some have a second one, with the keys of an indexer for the same tokens.
//! All other state is behind the last cache, or between both.
//!
//! A cache begins with the number of its streams. For each stream follow its number of cells and,
//! where there are any, the position, the number of sequences, for some models an extension, and the
//! id of each cell, four numbers on the tensors, and the planes. A position and its extension become
//! a plane like the others: models that have extensions count images by lines and columns, so that
//! positions follow from no other number, and cells are in the order of position, line and column.
//! A second cache has no extensions, and its cells are in the same order.
//! A layer's keys are one plane, headed by their type and the bytes of a row; values are the same,
//! or, where they are stored transposed, one plane for each of their numbers. Caches whose keys are
//! also the values have none. Whatever does not fit this form is refused, so that a model with more
//! state than this is not restored in part.

mod read;
#[cfg(test)]
mod tests;

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use crate::backend::interface::{SaveError, SavedCells, SavedPart};
use read::{CellOrder, CellPlace, ParsedCache, StateReader, read_caches};

/// The order in which llama.cpp writes the parts of a sequence's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateLayout {
    /// Caches with a cell for each token.
    pub(super) caches: usize,
    /// Number of caches before the state that is in no cache.
    pub(super) before_rest: usize,
}

/// The parts of a state that are the same for every sequence of a context, found in the first one
/// that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateForm {
    magic: [u8; 4],
    /// Bytes of a cell's position and extension, which then are the first plane. 0 if the first
    /// cache has no extensions.
    place: usize,
    caches: Vec<CacheForm>,
    /// Number of caches before the rest, as in [`StateLayout::before_rest`].
    before_rest: usize,
    /// Bytes of one cell in each plane of all caches.
    rows: Arc<[u32]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CacheForm {
    streams: u32,
    /// The numbers on the tensors that precede the planes.
    tensors: [u8; 16],
    /// Header of each plane, except the plane of extensions.
    heads: Vec<Vec<u8>>,
}

/// A parsed state, from which cells can be copied.
pub(super) struct ParsedState<'a> {
    pub(super) form: StateForm,
    /// Position of the first cell in its sequence.
    first: u32,
    /// The cells in each cache.
    cells: Vec<Cells<'a>>,
}

/// The cells of a sequence in a cache.
struct Cells<'a> {
    /// Indices of the cells in the planes, in the order of the sequence.
    order: Vec<usize>,
    /// Positions and extensions of the cells; empty if they have no extensions.
    places: Vec<u8>,
    planes: Vec<&'a [u8]>,
}

impl ParsedState<'_> {
    /// Copies the cells at some positions.
    pub(super) fn cells(&self, positions: &Range<u32>) -> Result<SavedCells, SaveError> {
        let in_cell: usize = self.form.rows.iter().map(|row| *row as usize).sum();
        let mut bytes = Vec::with_capacity(in_cell * positions.len());
        let mut rows = self.form.rows.iter();
        for (number, cells) in self.cells.iter().enumerate() {
            let runs = runs(cells.at(positions, self.first)?);
            // Positions and extensions are the same in every cache.
            let placed = (number == 0 && self.form.place > 0).then_some(cells.places.as_slice());
            let planes = placed.into_iter().chain(cells.planes.iter().copied());
            for (plane, row) in planes.zip(rows.by_ref()) {
                let row = *row as usize;
                for run in &runs {
                    bytes.extend_from_slice(&plane[run.start * row..run.end * row]);
                }
            }
        }
        let rows = Arc::clone(&self.form.rows);
        Ok(SavedCells::new(rows, positions.len() as u32, bytes))
    }
}

impl Cells<'_> {
    /// Returns the indices of the cells at some positions; `first` is the position of the first
    /// cell.
    fn at(&self, positions: &Range<u32>, first: u32) -> Result<&[usize], SaveError> {
        let order = positions.start.checked_sub(first).and_then(|start| {
            let end = positions.end - first;
            self.order.get(start as usize..end as usize)
        });
        order.ok_or_else(|| {
            SaveError(format!(
                "llama.cpp has {} cells of a sequence from {first} on, not those of {positions:?}",
                self.order.len(),
            ))
        })
    }
}

/// Parses a state that has `rest` bytes outside of its caches. The positions of cells without an
/// extension have no gaps. `extended` gives the size of an extension in bytes, and the number of
/// the sequence's cells, the last of which are in the state.
pub(super) fn parse(
    state: &[u8],
    layout: StateLayout,
    rest: usize,
    extended: Option<(NonZero<usize>, u32)>,
) -> Result<ParsedState<'_>, SaveError> {
    let mut reader = StateReader(state);
    let magic = reader.array()?;
    reader.number()?; // the sequence's id
    let behind = |cache: usize| if cache == layout.before_rest { rest } else { 0 };
    let behind: Vec<usize> = (1..=layout.caches).map(behind).collect();
    let order = extended.map_or(CellOrder::Positions, |(bytes, end)| {
        CellOrder::Places(bytes, end)
    });
    let caches = read_caches(&reader, &behind, &order)?;
    let first = caches.first().map_or(0, |cache| cache.first);
    let count = |cache: &ParsedCache<'_>| cache.cells.order.len();
    if caches
        .windows(2)
        .any(|pair| pair[1].first != first || count(&pair[0]) != count(&pair[1]))
    {
        return Err(unknown("caches with different cells"));
    }
    let place = extended.map_or(0, |(bytes, _)| POSITION + bytes.get());
    let place_row = (place > 0).then_some(place as u32);
    let rows = caches.iter().flat_map(|cache| cache.rows.iter().copied());
    Ok(ParsedState {
        form: StateForm {
            magic,
            place,
            rows: place_row.into_iter().chain(rows).collect(),
            caches: caches.iter().map(|cache| cache.form.clone()).collect(),
            before_rest: layout.before_rest,
        },
        first,
        cells: caches.into_iter().map(|cache| cache.cells).collect(),
    })
}

/// Returns the positions of saved cells that have extensions, and the position after the last.
pub(super) fn positions<'a>(parts: &'a [SavedPart<'a>]) -> (impl Iterator<Item = u32> + 'a, u32) {
    let places = |part: &'a SavedPart<'a>| {
        let cells = part.planes().next().unwrap_or_default();
        cells.chunks_exact(part.row(0).max(1)).map(CellPlace::read)
    };
    let last = parts.last().and_then(|part| places(part).next_back());
    let next = last.map_or(0, |last| last.position.max(last.line).max(last.column) + 1);
    let places = parts.iter().flat_map(places);
    (places.map(|place| place.position), next)
}

/// Builds a state in `state`, for any sequence. It has the cells, at the positions from `from` on
/// or at the positions saved with them, and the bytes `rest`.
pub(super) fn build(
    form: &StateForm,
    from: u32,
    parts: &[SavedPart<'_>],
    rest: &[u8],
    state: &mut Vec<u8>,
) {
    let cells: u32 = parts.iter().map(|part| part.cells.len() as u32).sum();
    let in_cell: usize = form.rows.iter().map(|row| *row as usize).sum();
    let numbers = |cache: &CacheForm| {
        let heads: usize = cache.heads.iter().map(Vec::len).sum();
        20 + 4 * cache.streams as usize + (12 + form.place) * cells as usize + heads
    };
    let numbers: usize = form.caches.iter().map(numbers).sum();
    state.clear();
    state.reserve_exact(8 + numbers + in_cell * cells as usize + rest.len());
    state.extend(form.magic);
    number(state, 0); // llama.cpp puts the cells where it is told, whatever is written here
    let mut planes: Vec<_> = parts.iter().map(SavedPart::planes).collect();
    let with_places = planes.iter_mut().filter(|_| form.place > 0);
    let placed: Vec<&[u8]> = with_places.filter_map(Iterator::next).collect();
    for (before, cache) in form.caches.iter().enumerate() {
        if before == form.before_rest {
            state.extend(rest);
        }
        number(state, cache.streams);
        number(state, cells);
        let mut placed = placed
            .iter()
            .flat_map(|plane| plane.chunks_exact(form.place));
        for position in from..from + cells {
            let counted = position.to_ne_bytes();
            let (position, extension) = placed
                .next()
                .map_or((&counted[..], &[][..]), |place| place.split_at(POSITION));
            state.extend(position);
            number(state, 1);
            if before == 0 {
                state.extend(extension);
            }
            number(state, 0);
        }
        state.extend(cache.tensors);
        for head in &cache.heads {
            state.extend(head);
            for part in &mut planes {
                state.extend(part.next().unwrap_or_default());
            }
        }
        for _ in 1..cache.streams {
            number(state, 0);
        }
    }
    if form.before_rest == form.caches.len() {
        state.extend(rest);
    }
}

/// Size of a position, in bytes.
const POSITION: usize = size_of::<u32>();

fn number(state: &mut Vec<u8>, number: u32) {
    state.extend(number.to_ne_bytes());
}

/// Merges consecutive numbers into ranges.
fn runs(order: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for index in order {
        match runs.last_mut() {
            Some(run) if run.end == *index => run.end += 1,
            _ => runs.push(*index..*index + 1),
        }
    }
    runs
}

fn unknown(what: &str) -> SaveError {
    SaveError(format!("its state has an unknown form: {what}"))
}
