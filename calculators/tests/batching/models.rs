//! Small models that compute, wait, fail and panic as tests want it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use graphmill_calculators::tensor::{Datatype, Tensor, TensorInfo, TensorModel};
use graphmill_engine::{Error, Result};

/// Long enough for every thread to get its turn on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A door that calls pass one by one or all at once.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Calls that have come, and calls that may pass.
    counts: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Gate {
    /// A gate that is open for good.
    pub(crate) fn open() -> Self {
        let gate = Self::default();
        gate.let_pass(usize::MAX);
        gate
    }

    /// Waits until so many calls have come.
    pub(crate) fn wait_for(&self, calls: usize) {
        let counts = self.counts.lock().expect("no test panics with it");
        let waiting = |counts: &mut (usize, usize)| counts.0 < calls;
        let (_counts, timeout) = self
            .changed
            .wait_timeout_while(counts, PATIENCE, waiting)
            .expect("no test panics with it");
        assert!(!timeout.timed_out(), "{calls} calls do not come");
    }

    /// Lets so many calls pass in all.
    pub(crate) fn let_pass(&self, calls: usize) {
        self.counts.lock().expect("no test panics with it").1 = calls;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut counts = self.counts.lock().expect("no test panics with it");
        counts.0 += 1;
        let number = counts.0;
        self.changed.notify_all();
        let shut = |counts: &mut (usize, usize)| counts.1 < number;
        drop(self.changed.wait_while(counts, shut));
    }
}

/// Multiplies rows with a matrix. A row that begins with NaN makes it fail, one that begins with
/// infinity makes it panic.
pub(crate) struct Matmul {
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    weights: Vec<f32>,
    width: usize,
    /// Rows of each call.
    pub(crate) calls: Mutex<Vec<usize>>,
    pub(crate) gate: Gate,
}

impl Matmul {
    /// Of rows of `width` numbers to rows of `out` numbers.
    pub(crate) fn new(width: usize, out: usize, gate: Gate) -> Self {
        let info = |name: &str, length: usize| TensorInfo {
            name: name.to_owned(),
            datatype: Datatype::Fp32,
            shape: vec![-1, length as i64],
        };
        Self {
            inputs: vec![info("pixels", width)],
            outputs: vec![info("scores", out)],
            weights: (0..width * out).map(|at| (at % 7) as f32 - 3.0).collect(),
            width,
            calls: Mutex::default(),
            gate,
        }
    }

    pub(crate) fn calls(&self) -> Vec<usize> {
        self.calls.lock().expect("no test panics with it").clone()
    }

    /// What it gives for some rows.
    pub(crate) fn product(&self, numbers: &[f32]) -> Vec<f32> {
        let rows = numbers.chunks(self.width);
        let columns = || self.weights.chunks(self.width);
        rows.flat_map(|row| {
            columns().map(|column| row.iter().zip(column).map(|(a, b)| a * b).sum())
        })
        .collect()
    }
}

impl TensorModel for Matmul {
    fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let rows = inputs[0].shape()[0];
        self.calls
            .lock()
            .expect("no test panics with it")
            .push(rows);
        self.gate.pass();
        let numbers = numbers(&inputs[0]);
        let mut firsts = numbers.iter().step_by(self.width);
        assert!(!firsts.clone().any(|first| first.is_infinite()), "too much");
        if firsts.any(|first| first.is_nan()) {
            return Err(Error::invalid("a row is not a number"));
        }
        Ok(vec![floats(
            &[rows, self.weights.len() / self.width],
            &self.product(&numbers),
        )])
    }
}

/// Gives back what a function makes of the inputs; nothing is known of its tensors.
pub(crate) struct Anything<F>(pub(crate) F);

impl<F> TensorModel for Anything<F>
where
    F: Fn(Vec<Tensor>) -> Result<Vec<Tensor>> + Send + Sync,
{
    fn inputs(&self) -> &[TensorInfo] {
        &[]
    }

    fn outputs(&self) -> &[TensorInfo] {
        &[]
    }

    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        self.0(inputs)
    }
}

/// A tensor of 32-bit numbers.
pub(crate) fn floats(shape: &[usize], numbers: &[f32]) -> Tensor {
    let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    Tensor::new(Datatype::Fp32, shape, bytes).expect("as many as the shape says")
}

/// The numbers of a tensor of 32-bit numbers.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f32> {
    let numbers = tensor.data().as_chunks::<4>().0.iter();
    numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Numbers that no two calls have in common.
pub(crate) fn other_numbers(count: usize) -> Vec<f32> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let from = NEXT.fetch_add(count, Ordering::Relaxed);
    (from..from + count).map(|at| (at % 4096) as f32).collect()
}
