//! The operands of attention, and how threads divide it.

/// Cells that have weights relative to the largest score of them, before they are added to others.
pub(crate) const BLOCK: usize = 256;
/// Rows of a part, which share what is read: a query for each head that shares a key.
const ROWS_PER_PART: usize = 256;
/// Parts a thread should get, so that threads that are interrupted leave some of theirs to others.
const PARTS_PER_THREAD: usize = 8;
/// The same where cells of one token are divided, which costs more.
const PIECES_PER_THREAD: usize = 4;
/// Rows of a token whose cells can be divided.
const FEW_ROWS: usize = 16;

/// Division of attention among threads.
pub(crate) struct AttentionPlan {
    /// Maximum number of tokens of a part; 1 if its cells are divided.
    pub(crate) tokens: usize,
    /// Division of the cells of each token; `None` if they are not divided.
    pub(crate) cells: Option<CellPieces>,
    /// Number of blocks of cells.
    pub(crate) blocks: usize,
}

/// Division of the cells of a token.
pub(crate) struct CellPieces {
    /// Number of parts.
    pub(crate) count: usize,
    /// Heads of keys of a part. It computes a block of cells for each before the next block, as
    /// keys of all heads are side by side: memory is read in order.
    pub(crate) heads: usize,
}

/// The types of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// IEEE 754 binary32, 4 bytes.
    F32,
    /// IEEE 754 binary16, 2 bytes.
    F16,
    /// The first half of 32 bits.
    Bf16,
    /// Blocks of 32 integers of 8 bits and a binary16 scale.
    Q8_0,
    /// Blocks of 32 integers of 5 bits, a binary16 scale and what the least of them stands for.
    Q5_1,
    /// Blocks of 32 integers of 5 bits and a binary16 scale.
    Q5_0,
    /// Blocks of 32 integers of 4 bits, a binary16 scale and what the least of them stands for.
    Q4_1,
    /// Blocks of 32 integers of 4 bits and a binary16 scale.
    Q4_0,
}

impl Numbers {
    /// Returns the number of elements that share a scale; 1 for floats.
    pub fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q8_0 | Self::Q5_1 | Self::Q5_0 | Self::Q4_1 | Self::Q4_0 => 32,
        }
    }

    /// Returns the number of bytes of `count` elements, which are whole blocks.
    pub(crate) fn bytes(self, count: usize) -> usize {
        match self {
            Self::F32 => 4 * count,
            Self::F16 | Self::Bf16 => 2 * count,
            Self::Q8_0 => count / 32 * 34,
            Self::Q5_1 => count / 32 * 24,
            Self::Q5_0 => count / 32 * 22,
            Self::Q4_1 => count / 32 * 20,
            Self::Q4_0 => count / 32 * 18,
        }
    }
}

/// Rows of elements in memory, in three dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The first element of the first row.
    pub first: *const u8,
    /// Bytes from one row to the next in each dimension.
    pub strides: [usize; 3],
}

impl Rows {
    /// Returns the address of a row.
    pub(crate) fn at(&self, index: [usize; 3]) -> *const u8 {
        let offsets = index.iter().zip(self.strides);
        let offset = offsets.map(|(index, stride)| index * stride);
        self.first.wrapping_add(offset.sum())
    }
}

/// Softmax attention: for each query the mean of all values, weighted by the exponentials of the
/// dot products of query and keys.
///
/// Sums over the elements of a key and over cells are added in order, and a cell that a query does
/// not see adds nothing. So a result depends only on the query and the cells that it sees, bit for
/// bit: with any other queries in the computation, and on any number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Queries of a stream, for each head.
    pub tokens: usize,
    /// Number of heads of a query.
    pub heads: usize,
    /// Heads of a key and a value, each shared by equally many heads of a query.
    pub kv_heads: usize,
    /// Keys and values of a stream.
    pub cells: usize,
    /// Sets of queries, keys and values that have nothing to do with each other.
    pub streams: usize,
    /// Elements of a query and of a key.
    pub key_size: usize,
    /// Elements of a value and of a result.
    pub value_size: usize,
    /// Queries of 32-bit elements, by token, head and stream.
    pub queries: Rows,
    /// Keys by cell, head and stream.
    pub keys: Rows,
    /// The element type of keys.
    pub key_numbers: Numbers,
    /// Values by cell, head and stream.
    pub values: Rows,
    /// The element type of values.
    pub value_numbers: Numbers,
    /// The mask, which is added to the scores of a token: a binary16 element for each cell, by
    /// token and stream (the second stride is ignored). A cell with minus infinity is not seen.
    pub mask: Option<Rows>,
    /// A further score for each head, which takes part in the weights and has no value; may be
    /// null.
    pub sinks: *const f32,
    /// The factor of the dot products of queries and keys.
    pub scale: f32,
    /// Scores are bent to stay below this; 0 for scores as they are.
    pub cap: f32,
    /// Slope of the mask of the first head, as in attention with linear biases; 0 for masks as
    /// they are.
    pub max_bias: f32,
    /// Results: `value_size` elements for each head of each token of each stream.
    pub out: *mut f32,
}

impl Attention {
    /// Returns true if there is a kernel for these shapes.
    pub fn fits(&self) -> bool {
        let whole =
            |size: usize, numbers: Numbers| size > 0 && size.is_multiple_of(numbers.block());
        whole(self.key_size, self.key_numbers)
            && whole(self.value_size, self.value_numbers)
            && self.kv_heads > 0
            && self.heads.is_multiple_of(self.kv_heads)
    }

    /// Heads of a query that share a key.
    pub(crate) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The factor that turns dot products of queries and keys into exponents of two, or with a cap
    /// into the input of the capping function.
    pub(crate) fn factor(&self) -> f32 {
        use std::f32::consts::LOG2_E;
        if self.cap == 0.0 {
            self.scale * LOG2_E
        } else {
            self.scale / self.cap * (2.0 * LOG2_E)
        }
    }

    /// Returns the division among threads.
    pub(crate) fn plan(&self, threads: usize) -> AttentionPlan {
        let sets = self.streams * self.kv_heads;
        let most = (ROWS_PER_PART / self.group()).max(1);
        let wanted = threads.max(1) * PARTS_PER_THREAD;
        let tokens = (self.tokens * sets).div_ceil(wanted).clamp(1, most);
        let blocks = self.cells.div_ceil(BLOCK);
        let few = self.tokens == 1 || self.tokens * sets < 2 * threads;
        let divided = self.group() <= FEW_ROWS && blocks > 1 && few;
        AttentionPlan {
            tokens: if divided { 1 } else { tokens },
            cells: divided.then(|| {
                let wanted = threads.max(1) * PIECES_PER_THREAD;
                let tokens = (self.tokens * self.streams).max(1);
                let count = wanted.div_ceil(tokens).min(blocks);
                let shares = wanted.div_ceil(tokens * count).min(self.kv_heads);
                let heads = self.kv_heads.div_ceil(shares);
                CellPieces { count, heads }
            }),
            blocks,
        }
    }

    /// Into how many parts threads divide it; 0 if nothing is to be computed.
    pub fn parts(&self, threads: usize) -> usize {
        let plan = self.plan(threads);
        let parts = match plan.cells {
            Some(pieces) => pieces.count * self.kv_heads.div_ceil(pieces.heads),
            None => self.kv_heads,
        };
        self.tokens.div_ceil(plan.tokens) * self.streams * parts
    }

    /// Returns the number of results to merge from parts, once all parts are computed.
    pub fn merges(&self, threads: usize) -> usize {
        match self.plan(threads).cells {
            None => 0,
            Some(_) => self.tokens * self.streams * self.kv_heads,
        }
    }

    /// Bytes of memory that parts and merges share, aligned to 64 bytes.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        self.merges(threads) * self.partials(&self.plan(threads))
    }

    /// Elements that hold the result of a block of cells of a token until it is merged: for up to
    /// sixteen rows the largest score and the sum of weights, and for each row a sum of values in
    /// whole vectors.
    pub(crate) fn partial(&self) -> usize {
        2 * FEW_ROWS + self.group() * self.value_size.next_multiple_of(16)
    }

    /// Bytes that the blocks of a result take.
    pub(crate) fn partials(&self, plan: &AttentionPlan) -> usize {
        plan.blocks * self.partial() * size_of::<f32>()
    }

    /// Returns the slope of a head's mask.
    pub(crate) fn slope(&self, head: usize) -> f32 {
        if self.max_bias <= 0.0 {
            return 1.0;
        }
        let heads = self.heads as f32;
        let even = heads.log2().floor().exp2();
        let head = head as f32;
        if head < even {
            (-self.max_bias / even * (head + 1.0)).exp2()
        } else {
            (-self.max_bias / 2.0 / even * (2.0 * (head - even) + 1.0)).exp2()
        }
    }
}
