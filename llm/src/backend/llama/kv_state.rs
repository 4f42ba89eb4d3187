//! The form in which llama.cpp writes the cells of a sequence, taken apart into [`SavedCells`] and
//! put together again.
//!
//! Every number is in the machine's byte order: a magic number and the sequence's id; the number of
//! streams; then for each stream its number of cells and, where there are any, the position, the
//! number of sequences, for some models an extension, and the id of each cell, four numbers on the
//! tensors, and the planes. A position and its extension become a plane like the others: models that
//! have extensions count images by lines and columns, so that positions follow from no other number,
//! and cells are in the order of position, line and column. A layer's keys are one
//! plane, headed by their type and the bytes of a row; values are the same, or, where they are
//! stored transposed, one plane for each of their numbers. Whatever does not fit this form is
//! refused, so that a model with more state than this is not restored in part.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;

use crate::backend::interface::{SaveError, SavedCells, SavedPart};

/// The parts of a state that are the same for every sequence of a context, found in the first one
/// that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    magic: [u8; 4],
    streams: u32,
    /// Bytes of a cell's position and extension, if there is one: then they are the first plane.
    place: usize,
    /// The numbers on the tensors that precede the planes.
    tensors: [u8; 16],
    /// What precedes each plane but that of extensions.
    heads: Vec<Vec<u8>>,
    /// Bytes of one cell in each plane.
    rows: Arc<[u32]>,
}

/// A state whose cells can be taken out.
pub(super) struct Parsed<'a> {
    pub(super) form: Form,
    /// The place of the first cell in its sequence.
    first: u32,
    /// Where the cells are in the planes, in their order in the sequence.
    order: Vec<usize>,
    /// Positions and extensions of cells that have any.
    places: Vec<u8>,
    planes: Vec<&'a [u8]>,
}

impl Parsed<'_> {
    /// The cells at some positions.
    pub(super) fn cells(&self, positions: &Range<u32>) -> Result<SavedCells, SaveError> {
        let places = |first: u32| {
            let (start, end) = (positions.start - first, positions.end - first);
            self.order.get(start as usize..end as usize)
        };
        let order = (positions.start >= self.first).then(|| places(self.first));
        let order = order.flatten().ok_or_else(|| {
            SaveError(format!(
                "llama.cpp has {} cells of a sequence from {} on, not those of {positions:?}",
                self.order.len(),
                self.first
            ))
        })?;
        let runs = runs(order);
        let in_cell: usize = self.form.rows.iter().map(|row| *row as usize).sum();
        let mut bytes = Vec::with_capacity(in_cell * order.len());
        let places = (self.form.place > 0).then_some(self.places.as_slice());
        let all = places.into_iter().chain(self.planes.iter().copied());
        for (plane, row) in all.zip(&*self.form.rows) {
            let row = *row as usize;
            for run in &runs {
                bytes.extend_from_slice(&plane[run.start * row..run.end * row]);
            }
        }
        let rows = Arc::clone(&self.form.rows);
        Ok(SavedCells::new(rows, positions.len() as u32, bytes))
    }
}

/// Takes a state apart. Cells without an extension have positions without gaps. For others,
/// `extended` says of how many bytes their extension is, and how many cells the sequence has got: the
/// last of them are in the state.
pub(super) fn parse(
    state: &[u8],
    extended: Option<(NonZero<usize>, u32)>,
) -> Result<Parsed<'_>, SaveError> {
    let extension = extended.map_or(0, |(bytes, _)| bytes.get());
    let mut reader = Reader(state);
    let magic = reader.array()?;
    reader.number()?; // the sequence's id
    let streams = reader.number()?;
    let mut parsed = None;
    for stream in 0..streams {
        let cells = reader.number()?;
        if cells == 0 {
            continue;
        }
        if parsed.is_some() {
            return Err(unknown("cells in two streams"));
        }
        // Behind this stream come only the numbers of cells of the others.
        let after = 4 * (streams - stream - 1) as usize;
        let heads = read_heads(&mut reader, cells, extension)?;
        let (planes, tensors) = read_stream(&mut reader, cells, after)?;
        let place = if extension > 0 {
            POSITION + extension
        } else {
            0
        };
        let (first, order) = match extended {
            Some((_, end)) => by_place(&heads.places, place, end)?,
            None => by_position(&heads.positions)?,
        };
        parsed = Some(Parsed {
            form: Form {
                magic,
                streams,
                place,
                tensors,
                heads: planes.heads,
                rows: place_row(place).chain(planes.rows).collect(),
            },
            first,
            order,
            places: heads.places,
            planes: planes.data,
        });
    }
    if !reader.0.is_empty() {
        return Err(unknown("more than one cache"));
    }
    parsed.ok_or_else(|| unknown("no cells"))
}

/// The positions of saved cells that have extensions, and that of the cell behind the last.
pub(super) fn positions<'a>(parts: &'a [SavedPart<'a>]) -> (impl Iterator<Item = u32> + 'a, u32) {
    let places = |part: &'a SavedPart<'a>| {
        let cells = part.planes().next().unwrap_or_default();
        cells.chunks_exact(part.row(0).max(1)).map(Place::read)
    };
    let last = parts.last().and_then(|part| places(part).next_back());
    let next = last.map_or(0, |last| last.position.max(last.line).max(last.column) + 1);
    let places = parts.iter().flat_map(places);
    (places.map(|place| place.position), next)
}

/// Replaces `state` by one put together: cells at the positions from `from` on, or at those that
/// were saved with them, for any sequence.
pub(super) fn build(form: &Form, from: u32, parts: &[SavedPart<'_>], state: &mut Vec<u8>) {
    let cells: u32 = parts.iter().map(|part| part.cells.len() as u32).sum();
    let in_cell: usize = form.rows.iter().map(|row| *row as usize).sum();
    let heads: usize = form.heads.iter().map(Vec::len).sum();
    let numbers = 16 + 4 * form.streams as usize + 12 * cells as usize + 16;
    state.clear();
    state.reserve_exact(numbers + heads + in_cell * cells as usize);
    let number = |state: &mut Vec<u8>, number: u32| state.extend(number.to_ne_bytes());
    state.extend(form.magic);
    number(state, 0); // llama.cpp puts the cells where it is told, whatever is written here
    number(state, form.streams);
    number(state, cells);
    let mut planes: Vec<_> = parts.iter().map(SavedPart::planes).collect();
    let with_places = planes.iter_mut().filter(|_| form.place > 0);
    let placed: Vec<&[u8]> = with_places.filter_map(Iterator::next).collect();
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
        state.extend(extension);
        number(state, 0);
    }
    state.extend(form.tensors);
    for head in &form.heads {
        state.extend(head);
        for part in &mut planes {
            state.extend(part.next().unwrap_or_default());
        }
    }
    for _ in 1..form.streams {
        number(state, 0);
    }
}

/// The planes of a stream as they were written.
#[derive(Default)]
struct Planes<'a> {
    heads: Vec<Vec<u8>>,
    rows: Vec<u32>,
    data: Vec<&'a [u8]>,
}

/// What is said of each cell before the planes.
struct Heads {
    positions: Vec<u32>,
    /// Positions and extensions, where there are any.
    places: Vec<u8>,
}

fn read_heads(reader: &mut Reader<'_>, cells: u32, extension: usize) -> Result<Heads, SaveError> {
    let mut heads = Heads {
        positions: Vec::with_capacity(cells as usize),
        places: Vec::with_capacity(cells as usize * (POSITION + extension)),
    };
    for _ in 0..cells {
        let position = reader.number()?;
        heads.positions.push(position);
        if reader.number()? != 1 {
            return Err(unknown("a cell with further fields"));
        }
        if extension > 0 {
            heads.places.extend(position.to_ne_bytes());
            heads.places.extend(reader.take(extension)?);
        }
        reader.number()?; // the sequence's id
    }
    Ok(heads)
}

fn place_row(place: usize) -> impl Iterator<Item = u32> {
    (place > 0).then_some(place as u32).into_iter()
}

/// Bytes of a position.
const POSITION: usize = size_of::<u32>();

/// A position and the beginning of its extension, in the order of cells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    position: u32,
    line: u32,
    column: u32,
}

impl Place {
    fn read(bytes: &[u8]) -> Self {
        let mut numbers = Reader(bytes);
        let mut number = || numbers.number().unwrap_or(0);
        let (position, column, line) = (number(), number(), number());
        Self {
            position,
            line,
            column,
        }
    }
}

fn read_stream<'a>(
    reader: &mut Reader<'a>,
    cells: u32,
    after: usize,
) -> Result<(Planes<'a>, [u8; 16]), SaveError> {
    let tensors: [u8; 16] = reader.array()?;
    let mut numbers = Reader(&tensors);
    let (transposed, layers) = (numbers.number()?, numbers.number()?);
    let mut planes = Planes::default();
    for _ in 0..layers {
        planes.read_rows(reader, cells)?;
    }
    while reader.0.len() > after {
        match transposed {
            0 => planes.read_rows(reader, cells)?,
            1 => planes.read_columns(reader, cells)?,
            _ => return Err(unknown("values of an unknown order")),
        }
    }
    Ok((planes, tensors))
}

impl<'a> Planes<'a> {
    /// A tensor with a row for each cell: its type, the bytes of a row, the rows.
    fn read_rows(&mut self, reader: &mut Reader<'a>, cells: u32) -> Result<(), SaveError> {
        let head = reader.take(12)?;
        let row = u64::from_ne_bytes(Reader(&head[4..]).array()?);
        let row = u32::try_from(row).map_err(|_| unknown("rows of an impossible size"))?;
        self.add(head, row, reader, cells)
    }

    /// A transposed tensor: its type, the bytes of a number, how many numbers a cell has, and for
    /// each of these the cells.
    fn read_columns(&mut self, reader: &mut Reader<'a>, cells: u32) -> Result<(), SaveError> {
        let head = reader.take(12)?;
        let mut numbers = Reader(&head[4..]);
        let (bytes, count) = (numbers.number()?, numbers.number()?);
        for index in 0..count {
            let head = if index == 0 { head } else { &[] };
            self.add(head, bytes, reader, cells)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        head: &[u8],
        row: u32,
        reader: &mut Reader<'a>,
        cells: u32,
    ) -> Result<(), SaveError> {
        self.data.push(reader.take(row as usize * cells as usize)?);
        self.heads.push(head.to_vec());
        self.rows.push(row);
        Ok(())
    }
}

/// The last cells of a sequence that has got so many: the place of the first in it, and their order.
fn by_place(places: &[u8], bytes: usize, end: u32) -> Result<(u32, Vec<usize>), SaveError> {
    let places: Vec<Place> = places.chunks_exact(bytes).map(Place::read).collect();
    let first = end
        .checked_sub(places.len() as u32)
        .ok_or_else(|| unknown("more cells than there were"))?;
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_unstable_by_key(|index| places[*index]);
    let mut neighbors = order.windows(2);
    if neighbors.any(|pair| places[pair[0]] == places[pair[1]]) {
        return Err(unknown("two cells at one place"));
    }
    Ok((first, order))
}

/// The position of the first cell, and the cells in the order of their positions, which must be
/// without gaps.
fn by_position(positions: &[u32]) -> Result<(u32, Vec<usize>), SaveError> {
    let first = positions.iter().copied().min().unwrap_or(0);
    let mut order = vec![usize::MAX; positions.len()];
    for (index, position) in positions.iter().enumerate() {
        match order.get_mut((position - first) as usize) {
            Some(place) if *place == usize::MAX => *place = index,
            _ => return Err(unknown("positions with gaps")),
        }
    }
    Ok((first, order))
}

/// Neighboring numbers as ranges.
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

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], SaveError> {
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| unknown("an early end"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SaveError> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| unknown("an early end"))
    }

    fn number(&mut self) -> Result<u32, SaveError> {
        Ok(u32::from_ne_bytes(self.array()?))
    }
}

fn unknown(what: &str) -> SaveError {
    SaveError(format!("its state has an unknown form: {what}"))
}
