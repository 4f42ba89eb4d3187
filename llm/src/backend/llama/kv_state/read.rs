//! Parser of a sequence's state.

use std::num::NonZero;

use super::{CacheForm, Cells, POSITION, unknown};
use crate::backend::interface::SaveError;

/// The parsed content of one cache.
pub(super) struct ParsedCache<'a> {
    pub(super) form: CacheForm,
    /// Bytes of a cell in each plane.
    pub(super) rows: Vec<u32>,
    /// Position of the first cell in its sequence.
    pub(super) first: u32,
    pub(super) cells: Cells<'a>,
}

/// Rules that order the cells of a cache.
pub(super) enum CellOrder {
    /// By position; positions have no gaps.
    Positions,
    /// By position and extension. Holds the size of an extension in bytes, and the number of the
    /// sequence's cells, of which the state has the last ones.
    Places(NonZero<usize>, u32),
    /// In the order of the cache before. Holds the position of the first cell, and the order.
    AsBefore(u32, Vec<usize>),
}

/// Reads caches, each followed by the number of other bytes in `behind`; nothing may be left. The
/// end of a cache depends on whether it has values, which the format does not say: both are tried.
/// Only the first cache has extensions.
pub(super) fn read_caches<'a>(
    reader: &StateReader<'a>,
    behind: &[usize],
    order: &CellOrder,
) -> Result<Vec<ParsedCache<'a>>, SaveError> {
    let Some((others, behind)) = behind.split_first() else {
        return if reader.0.is_empty() {
            Ok(Vec::new())
        } else {
            Err(unknown("more than its cells"))
        };
    };
    let read = |values| {
        let mut reader = StateReader(reader.0);
        let cache = read_cache(&mut reader, values, order)?;
        reader.take(*others)?;
        let next = match order {
            CellOrder::Positions => CellOrder::Positions,
            _ => CellOrder::AsBefore(cache.first, cache.cells.order.clone()),
        };
        let mut caches = vec![cache];
        caches.extend(read_caches(&reader, behind, &next)?);
        Ok(caches)
    };
    read(true).or_else(|_: SaveError| read(false))
}

fn read_cache<'a>(
    reader: &mut StateReader<'a>,
    values: bool,
    order: &CellOrder,
) -> Result<ParsedCache<'a>, SaveError> {
    let extension = match order {
        CellOrder::Places(bytes, _) => bytes.get(),
        CellOrder::Positions | CellOrder::AsBefore(..) => 0,
    };
    let streams = reader.number()?;
    let mut cache = None;
    for _ in 0..streams {
        let cells = reader.number()?;
        if cells == 0 {
            continue;
        }
        if cache.is_some() {
            return Err(unknown("cells in two streams"));
        }
        let heads = read_heads(reader, cells, extension)?;
        let (planes, tensors) = read_stream(reader, cells, values)?;
        let (first, order) = match order {
            CellOrder::Positions => by_position(&heads.positions)?,
            CellOrder::Places(bytes, end) => by_place(&heads.places, POSITION + bytes.get(), *end)?,
            CellOrder::AsBefore(first, order) if order.len() == cells as usize => {
                (*first, order.clone())
            }
            CellOrder::AsBefore(..) => return Err(unknown("caches with different cells")),
        };
        cache = Some(ParsedCache {
            form: CacheForm {
                streams,
                tensors,
                heads: planes.heads,
            },
            rows: planes.rows,
            first,
            cells: Cells {
                order,
                places: heads.places,
                planes: planes.data,
            },
        });
    }
    cache.ok_or_else(|| unknown("no cells"))
}

/// The planes of a stream in their written form.
#[derive(Default)]
struct Planes<'a> {
    heads: Vec<Vec<u8>>,
    rows: Vec<u32>,
    data: Vec<&'a [u8]>,
}

/// The part of a cache before the planes: numbers of each cell.
struct Heads {
    positions: Vec<u32>,
    /// Positions and extensions; empty if cells have no extensions.
    places: Vec<u8>,
}

/// Minimum size of a cell's numbers, in bytes.
const HEAD: usize = 12;

fn read_heads(
    reader: &mut StateReader<'_>,
    cells: u32,
    extension: usize,
) -> Result<Heads, SaveError> {
    // This is an arbitrary number if the end of the cache before was guessed too late.
    if cells as usize > reader.0.len() / HEAD {
        return Err(unknown("an early end"));
    }
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

/// A position with its line and column, ordered as cells are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CellPlace {
    pub(super) position: u32,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl CellPlace {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut numbers = StateReader(bytes);
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
    reader: &mut StateReader<'a>,
    cells: u32,
    values: bool,
) -> Result<(Planes<'a>, [u8; 16]), SaveError> {
    let tensors: [u8; 16] = reader.array()?;
    let mut numbers = StateReader(&tensors);
    let (transposed, layers) = (numbers.number()?, numbers.number()?);
    let mut planes = Planes::default();
    for _ in 0..layers {
        planes.read_rows(reader, cells)?;
    }
    for _ in 0..if values { layers } else { 0 } {
        match transposed {
            0 => planes.read_rows(reader, cells)?,
            1 => planes.read_columns(reader, cells)?,
            _ => return Err(unknown("values of an unknown order")),
        }
    }
    Ok((planes, tensors))
}

impl<'a> Planes<'a> {
    /// Reads a tensor with a row for each cell: its type, the size of a row, the rows.
    fn read_rows(&mut self, reader: &mut StateReader<'a>, cells: u32) -> Result<(), SaveError> {
        let head = reader.take(12)?;
        let row = u64::from_ne_bytes(StateReader(&head[4..]).array()?);
        let row = u32::try_from(row).map_err(|_| unknown("rows of an impossible size"))?;
        self.add(head, row, reader, cells)
    }

    /// Reads a transposed tensor: its type, the size of a number, the numbers of a cell, and for
    /// each of them the values of all cells.
    fn read_columns(&mut self, reader: &mut StateReader<'a>, cells: u32) -> Result<(), SaveError> {
        let head = reader.take(12)?;
        let mut numbers = StateReader(&head[4..]);
        let (bytes, count) = (numbers.number()?, numbers.number()?);
        // These are arbitrary numbers if the cache has no values but was read as if it had.
        let in_cell = u64::from(bytes) * u64::from(count);
        if !matches!(bytes, 2 | 4) || in_cell > reader.0.len() as u64 / u64::from(cells) {
            return Err(unknown("values of an impossible size"));
        }
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
        reader: &mut StateReader<'a>,
        cells: u32,
    ) -> Result<(), SaveError> {
        self.data.push(reader.take(row as usize * cells as usize)?);
        self.heads.push(head.to_vec());
        self.rows.push(row);
        Ok(())
    }
}

/// Orders the last cells of a sequence with `end` cells. Returns the position of the first one, and
/// the order.
fn by_place(places: &[u8], bytes: usize, end: u32) -> Result<(u32, Vec<usize>), SaveError> {
    let places: Vec<CellPlace> = places.chunks_exact(bytes).map(CellPlace::read).collect();
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

/// Orders cells by position. Returns the position of the first one, and the order. Positions must
/// be without gaps.
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

/// The bytes that are not read yet.
pub(super) struct StateReader<'a>(pub(super) &'a [u8]);

impl<'a> StateReader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], SaveError> {
        let (taken, rest) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| unknown("an early end"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], SaveError> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| unknown("an early end"))
    }

    pub(super) fn number(&mut self) -> Result<u32, SaveError> {
        Ok(u32::from_ne_bytes(self.array()?))
    }
}
