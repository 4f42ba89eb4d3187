//! Nodes that the measurements need: one that takes long, one that notes when it is called.

use std::{
    hint::black_box,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Payload, Result, Side, register,
};

use crate::samples::nanoseconds;

/// Computes for about a millisecond and passes its input on. The work is a fixed count of steps and
/// not a span of time: threads that share a core must not look as if each had one.
pub struct Work;

/// Steps of [`spin`] in about a millisecond of a current core.
const STEPS: u64 = 1_000_000;

/// Does `steps` steps, each of which needs the one before.
pub fn spin(steps: u64) -> u64 {
    (0..steps).fold(1, |sum, step| {
        black_box(sum ^ step).wrapping_mul(6_364_136_223_846_793_005)
    })
}

impl Calculator for Work {
    const NAME: &'static str = "WorkCalculator";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, Out<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let input = c.input("");
        (input, c.same_as("", input))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        black_box(spin(STEPS));
        cx.forward(input, output);
        Ok(Flow::Continue)
    }
}
register!(Work);

/// Time at which a packet left the node before; `None` if it came from outside.
#[derive(Copy, Clone, Debug)]
pub struct Stamp(pub Option<Instant>);

/// The times of hops, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Hops(Arc<Mutex<Vec<f64>>>);

impl Hops {
    /// Takes the times that were collected so far.
    pub fn take(&self) -> Vec<f64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Times that one node can note before its list grows.
const ROOM: usize = 128;

/// Replaces the stamp of a packet by a new one, and notes the time between the two.
pub struct StampNode {
    hops: Hops,
    own: Vec<f64>,
}

impl Calculator for StampNode {
    const NAME: &'static str = "StampCalculator";
    type Options = NoOptions;
    type Ports = (In<Stamp>, Out<Stamp>, Side<Hops>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""), c.side("HOPS"))
    }

    fn open(_: &NoOptions, (_, _, hops): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let hops = cx.side(hops).cloned().unwrap_or_default();
        Ok(Self {
            hops,
            own: Vec::with_capacity(ROOM),
        })
    }

    fn process(&mut self, (input, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(Stamp(before)) = cx.take(input) {
            let now = Instant::now();
            self.own
                .extend(before.map(|before| nanoseconds(now - before)));
            cx.emit(output, Stamp(Some(now)));
        }
        Ok(Flow::Continue)
    }

    fn close(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<()> {
        let mut hops = self.hops.0.lock().unwrap_or_else(PoisonError::into_inner);
        hops.append(&mut self.own);
        Ok(())
    }
}
register!(StampNode);
