//! Takes the state of a sequence apart.

use std::num::NonZero;

use super::{CacheForm, Cells, POSITION, unknown};
use crate::backend::interface::SaveError;

/// What is read of a cache.
pub(super) struct Cache<'a> {
    pub(super) form: CacheForm,
    /// Bytes of a cell in each plane.
    pub(super) rows: Vec<u32>,
    /// The place of the first cell in its sequence.
    pub(super) first: u32,
    pub(super) cells: Cells<'a>,
}

/// What puts the cells of a cache in order.
pub(super) enum Order {
    /// Their positions, which have no gaps.
    Positions,
    /// Positions with an extension of so many bytes. The cells are the last of so many.
    Places(NonZero<usize>, u32),
    /// They are in the order of those of the cache before, the first at this place.
    AsBefore(u32, Vec<usize>),
}

/// Reads caches with so many other bytes `behind` each of them; nothing may be left. Where a cache ends
/// depends on whether it has values, which it does not tell: both are tried. Only the first cache
/// has extensions.
pub(super) fn read_caches<'a>(
    reader: &Reader<'a>,
    behind: &[usize],
    order: &Order,
) -> Result<Vec<Cache<'a>>, SaveError> {
    let Some((others, behind)) = behind.split_first() else {
        return if reader.0.is_empty() {
            Ok(Vec::new())
        } else {
            Err(unknown("more than its cells"))
        };
    };
    let read = |values| {
        let mut reader = Reader(reader.0);
        let cache = read_cache(&mut reader, values, order)?;
        reader.take(*others)?;
        let next = match order {
            Order::Positions => Order::Positions,
            _ => Order::AsBefore(cache.first, cache.cells.order.clone()),
        };
        let mut caches = vec![cache];
        caches.extend(read_caches(&reader, behind, &next)?);
        Ok(caches)
    };
    read(true).or_else(|_: SaveError| read(false))
}

fn read_cache<'a>(
    reader: &mut Reader<'a>,
    values: bool,
    order: &Order,
) -> Result<Cache<'a>, SaveError> {
    let extension = match order {
        Order::Places(bytes, _) => bytes.get(),
        Order::Positions | Order::AsBefore(..) => 0,
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
            Order::Positions => by_position(&heads.positions)?,
            Order::Places(bytes, end) => by_place(&heads.places, POSITION + bytes.get(), *end)?,
            Order::AsBefore(first, order) if order.len() == cells as usize => {
                (*first, order.clone())
            }
            Order::AsBefore(..) => return Err(unknown("caches with different cells")),
        };
        cache = Some(Cache {
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

/// The fewest bytes that are said of a cell.
const HEAD: usize = 12;

fn read_heads(reader: &mut Reader<'_>, cells: u32, extension: usize) -> Result<Heads, SaveError> {
    // Where a cache was taken to end too late, this is any number.
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

/// A position and the beginning of its extension, in the order of cells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) position: u32,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Place {
    pub(super) fn read(bytes: &[u8]) -> Self {
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
    values: bool,
) -> Result<(Planes<'a>, [u8; 16]), SaveError> {
    let tensors: [u8; 16] = reader.array()?;
    let mut numbers = Reader(&tensors);
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
        // Where a cache without values was taken to have some, these are any numbers.
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

/// What is left to read.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
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
