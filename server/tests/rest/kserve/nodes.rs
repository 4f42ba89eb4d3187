//! Nodes that repeat tensors, fail or wait.

use graphmill_calculators::tensor::Tensor;
use graphmill_engine::{
    Calculator, Contract, Cx, Error, EventSender, Events, Flow, In, NoOptions, OpenCx, Out, Result,
    Side, register,
};

/// Emits each tensor as often as the side packet says, once without one, each a timestamp later;
/// 0 is an error, and less a panic.
pub(super) struct Repeat {
    times: i64,
}

impl Calculator for Repeat {
    const NAME: &'static str = "RepeatCalculator";
    const DOC: &'static str = "Repeats tensors.";
    type Options = NoOptions;
    type Ports = (In<Tensor>, Out<Tensor>, Side<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""), c.optional_side(""))
    }

    fn open(_: &NoOptions, (_, _, times): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            times: cx.side(times).copied().unwrap_or(1),
        })
    }

    fn process(&mut self, (input, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(tensor) = cx.take(input) {
            assert!(self.times >= 0, "told to panic");
            if self.times == 0 {
                return Err(Error::internal("told to fail"));
            }
            let time = cx.time();
            for later in 0..self.times {
                cx.emit_at(output, time + later, tensor.clone());
            }
        }
        Ok(Flow::Continue)
    }
}
register!(Repeat);

/// Emits the sum of all tensors of one INT64 so far; fails at a negative one.
#[derive(Default)]
pub(super) struct Sum {
    sum: i64,
}

impl Calculator for Sum {
    const NAME: &'static str = "SumCalculator";
    const DOC: &'static str = "Adds up numbers.";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>, Side<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""), c.optional_side(""))
    }

    fn open(_: &NoOptions, (_, _, first): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let sum = cx.side(first).copied().unwrap_or(0);
        Ok(Self { sum })
    }

    fn process(&mut self, (input, output, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(number) = cx.take(input) {
            if number < 0 {
                return Err(Error::internal("told to fail"));
            }
            self.sum += number;
            cx.emit(output, self.sum);
        }
        Ok(Flow::Continue)
    }
}
register!(Sum);

/// Waits for an event that nobody sends.
pub(super) struct Wait {
    _sender: EventSender<()>,
}

impl Calculator for Wait {
    const NAME: &'static str = "WaitCalculator";
    const DOC: &'static str = "Waits without end.";
    type Options = NoOptions;
    type Ports = (In<Tensor>, Out<Tensor>, Events<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""), c.events())
    }

    fn open(_: &NoOptions, (_, _, events): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            _sender: cx.sender(events),
        })
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Continue)
    }
}
register!(Wait);
