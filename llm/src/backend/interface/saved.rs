//! Cells in host memory, in the form that backends save and restore.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Keys and values of neighboring positions of a sequence, copied out of the KV cache.
///
/// The bytes are ordered by plane, and within a plane by cell. A plane is one tensor's part, for
/// example the keys of a layer.
#[derive(Clone, PartialEq, Eq)]
pub struct SavedCells {
    rows: Arc<[u32]>,
    cells: u32,
    bytes: Vec<u8>,
}

impl SavedCells {
    /// Takes the bytes of `cells` cells; `rows` are the bytes of one cell in each plane.
    ///
    /// # Panics
    /// If the number of bytes does not match `cells` cells.
    pub fn new(rows: Arc<[u32]>, cells: u32, bytes: Vec<u8>) -> Self {
        let in_cell: usize = rows.iter().map(|row| *row as usize).sum();
        let expected = in_cell * cells as usize;
        assert_eq!(bytes.len(), expected, "bytes of {cells} cells");
        Self { rows, cells, bytes }
    }

    /// Number of neighboring cells that were copied.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// Host memory that the cells take, in bytes.
    pub fn byte_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of each plane, in order.
    pub fn planes(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.rows.iter().map(move |row| {
            let (plane, after) = rest.split_at(*row as usize * self.cells as usize);
            rest = after;
            plane
        })
    }

    /// A copy of a range of the cells, counted from the first of these.
    #[must_use]
    pub fn slice(&self, cells: Range<u32>) -> Self {
        let count = cells.len() as u32;
        let part = SavedPart { saved: self, cells };
        let planes: Vec<&[u8]> = part.planes().collect();
        Self::new(Arc::clone(&self.rows), count, planes.concat())
    }
}

impl fmt::Debug for SavedCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedCells")
            .field("cells", &self.cells)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// State that a model with recurrent layers or sliding windows needs besides the cells of a prefix
/// to continue from there, in the backend's own form.
#[derive(Clone, PartialEq, Eq)]
pub struct Checkpoint(pub Box<[u8]>);

impl Checkpoint {
    /// Host memory that the checkpoint takes, in bytes.
    pub fn byte_len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checkpoint").field(&self.0.len()).finish()
    }
}

/// A range of neighboring cells of a [`SavedCells`].
#[derive(Clone, Debug)]
pub struct SavedPart<'a> {
    /// The cells that the range is taken from.
    pub saved: &'a SavedCells,
    /// The range, counted from the first cell of `saved`.
    pub cells: Range<u32>,
}

impl<'a> SavedPart<'a> {
    /// The bytes of one cell in a plane; 0 if there is no such plane.
    pub fn row(&self, plane: usize) -> usize {
        let row = self.saved.rows.get(plane).copied();
        row.map_or(0, |bytes| bytes as usize)
    }

    /// The bytes of each plane, in order.
    pub fn planes(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let saved = self.saved;
        let Range { start, end } = self.cells.clone();
        saved
            .rows
            .iter()
            .zip(saved.planes())
            .map(move |(row, plane)| {
                let row = *row as usize;
                &plane[start as usize * row..end as usize * row]
            })
    }
}
