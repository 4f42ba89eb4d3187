//! The calculators that the tests wire up.

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Error, Flow, Group, In, InputSet, Ins, NoOptions,
    Offset, OpenCx, Out, OutSide, Outs, Payload, Registry, Result, Run, Side, Timestamp,
    testing::Harness,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// All of them.
pub(crate) fn environment() -> Environment {
    environment_with(Registry::new())
}

/// All of them, and those of `registry`.
pub(crate) fn environment_with(registry: Registry) -> Environment {
    Environment::new(
        registry
            .with::<Pass>()
            .with::<Probe>()
            .with::<Add>()
            .with::<Delay>()
            .with::<Fail>()
            .with::<Count>()
            .with::<Repeat>()
            .with::<Heavy>()
            .with::<Length>()
            .with::<MakeSide>()
            .with::<FromSide>()
            .with::<Hint>(),
    )
}

#[track_caller]
pub(crate) fn run(text: &str) -> Harness {
    Harness::new(text, environment())
}

/// Passes each input on, whatever its tag.
pub(crate) struct Pass;

#[derive(Copy, Clone)]
pub(crate) struct PassPorts([Option<Pair>; 4]);

/// The inputs and outputs of one tag.
type Pair = (Ins<dyn Payload>, Outs<dyn Payload>);

impl Calculator for Pass {
    const NAME: &'static str = "PassThroughCalculator";
    type Options = NoOptions;
    type Ports = PassPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> PassPorts {
        let mut ports = [None; 4];
        let tags = c.tags(Group::Inputs);
        for (tag, ports) in tags.iter().zip(&mut ports) {
            let inputs = c.inputs(tag);
            *ports = Some((inputs, c.outputs_same_as(tag, inputs)));
        }
        PassPorts(ports)
    }

    fn open(_: &NoOptions, _: PassPorts, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, io: PassPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        for (inputs, outputs) in io.0.into_iter().flatten() {
            for (input, output) in inputs.iter().zip(outputs.iter()) {
                cx.forward(input, output);
            }
        }
        Ok(Flow::Continue)
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProbeOptions {
    /// Also describes calls for settled timestamps.
    pub(crate) bounds: bool,
}

/// Describes its calls: `5: a -` is a call at 5 with `a` on the first input and nothing on the
/// second; with `bounds`, nothing is shown with the timestamp up to which the input is settled.
pub(crate) struct Probe {
    calls: i64,
    bounds: bool,
}

impl Calculator for Probe {
    const NAME: &'static str = "ProbeCalculator";
    type Options = ProbeOptions;
    type Ports = (Ins<dyn Payload>, Out<String>);

    fn contract(c: &mut Contract, options: &ProbeOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        if options.bounds {
            c.process_timestamp_bounds();
        }
        (c.inputs(""), c.output("CALLS"))
    }

    fn open(options: &ProbeOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            calls: 0,
            bounds: options.bounds,
        })
    }

    fn process(&mut self, (inputs, calls): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let show = |input: In<dyn Payload>| match cx.packet(input) {
            Some(packet) => packet
                .get::<&str>()
                .map_or("?".to_owned(), |text| (*text).to_owned()),
            None if self.bounds => format!("-{}", cx.settled(input)),
            None => "-".to_owned(),
        };
        let shown: Vec<String> = inputs.iter().map(show).collect();
        let text = format!("{}: {}", cx.time(), shown.join(" "));
        cx.emit_at(calls, self.calls, text);
        self.calls += 1;
        Ok(Flow::Continue)
    }

    fn close(&mut self, (_, calls): Self::Ports, cx: &mut Cx<'_>) -> Result<()> {
        cx.emit_at(calls, self.calls, "close".to_owned());
        Ok(())
    }
}

/// The descriptions a probe made since the last look.
#[track_caller]
pub(crate) fn calls(harness: &mut Harness) -> Vec<String> {
    let packets = harness.packets("calls");
    packets
        .into_iter()
        .filter_map(graphmill_engine::Packet::into_value)
        .collect()
}

/// Adds what is on its inputs.
pub(crate) struct Add;

impl Calculator for Add {
    const NAME: &'static str = "AddCalculator";
    type Options = NoOptions;
    type Ports = (Ins<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.inputs(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (inputs, sum): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let total = inputs.iter().filter_map(|input| cx.get(input)).sum::<i64>();
        cx.emit(sum, total);
        Ok(Flow::Continue)
    }
}

/// Emits 0 at 0 when it opens, and each input one timestamp later.
pub(crate) struct Delay;

impl Calculator for Delay {
    const NAME: &'static str = "DelayCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::By(1));
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, (_, output): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        cx.emit_at(output, 0, 0);
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            let time = cx.time() + 1;
            cx.emit_at(output, time, value);
        }
        Ok(Flow::Continue)
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FailOptions {
    /// `open`, `process` or `close`.
    pub(crate) at: String,
    /// Panics instead of failing.
    pub(crate) panic: bool,
}

/// Passes integers on and fails where it is told to; in `process`, at the value 13.
pub(crate) struct Fail(FailOptions);

impl FailOptions {
    fn now(&self, at: &str) -> Result<()> {
        assert!(
            !(self.panic && self.at == at),
            "this panic is a part of the test"
        );
        if self.at == at {
            return Err(Error::invalid("thirteen is refused")
                .with_code("unlucky")
                .with_field("number"));
        }
        Ok(())
    }
}

impl Calculator for Fail {
    const NAME: &'static str = "FailCalculator";
    type Options = FailOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &FailOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(options: &FailOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        options.now("open")?;
        Ok(Self(FailOptions {
            at: options.at.clone(),
            panic: options.panic,
        }))
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.get(input) == Some(&13) {
            self.0.now("process")?;
        }
        cx.forward(input, output);
        Ok(Flow::Continue)
    }

    fn close(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<()> {
        self.0.now("close")
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CountOptions {
    pub(crate) to: i64,
}

impl Default for CountOptions {
    fn default() -> Self {
        Self { to: 3 }
    }
}

/// A source: 0, 1, 2, ... at its own value.
pub(crate) struct Count {
    next: i64,
    to: i64,
}

impl Calculator for Count {
    const NAME: &'static str = "CountCalculator";
    type Options = CountOptions;
    type Ports = Out<i64>;

    fn contract(c: &mut Contract, _: &CountOptions) -> Out<i64> {
        c.output("")
    }

    fn open(options: &CountOptions, _: Out<i64>, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            next: 0,
            to: options.to,
        })
    }

    fn process(&mut self, output: Out<i64>, cx: &mut Cx<'_>) -> Result<Flow> {
        if self.next == self.to {
            return Ok(Flow::Stop);
        }
        cx.emit_at(output, self.next, self.next);
        self.next += 1;
        Ok(Flow::Continue)
    }
}

/// Emits each packet ten times: at `10 t`, `10 t + 1`, ...
pub(crate) struct Repeat;

impl Calculator for Repeat {
    const NAME: &'static str = "RepeatCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            let first = cx.time().value() * 10;
            for at in first..first + 10 {
                cx.emit_at(output, at, value);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Runs on the executor `cpu` and says on which thread. The text `light` takes it no time.
pub(crate) struct Heavy;

impl Calculator for Heavy {
    const NAME: &'static str = "HeavyCalculator";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, Out<String>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (_, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        cx.emit(
            output,
            std::thread::current().name().unwrap_or("").to_owned(),
        );
        Ok(Flow::Continue)
    }

    fn is_light(&self, (input, _): Self::Ports, set: &InputSet) -> bool {
        let packet = set.packet(input);
        packet.is_some_and(|packet| packet.get::<&str>() == Some(&"light"))
    }
}

/// The length of a text.
pub(crate) struct Length;

impl Calculator for Length {
    const NAME: &'static str = "LengthCalculator";
    type Options = NoOptions;
    type Ports = (In<String>, Out<usize>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input("TEXT"), c.output("LENGTH"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (text, length): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(text) = cx.get(text) {
            let bytes = text.len();
            cx.emit(length, bytes);
        }
        Ok(Flow::Continue)
    }
}

/// Sets a side packet: its input side packet plus one when it opens, or, with an input, the first
/// value that comes.
pub(crate) struct MakeSide;

impl Calculator for MakeSide {
    const NAME: &'static str = "MakeSideCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Side<i64>, OutSide<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (
            c.optional("IN"),
            c.optional_side("BASE"),
            c.output_side("OUT"),
        )
    }

    fn open(_: &NoOptions, (input, base, out): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        if !input.is_connected() {
            let value = cx.side(base).copied().unwrap_or_default() + 1;
            cx.output_side(out, value);
        }
        Ok(Self)
    }

    fn process(&mut self, (input, _, out): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            cx.out().side(out, value);
        }
        Ok(Flow::Continue)
    }
}

/// Adds a side packet to what comes.
pub(crate) struct FromSide(i64);

impl Calculator for FromSide {
    const NAME: &'static str = "FromSideCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Side<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.side("VALUE"), c.output(""))
    }

    fn open(_: &NoOptions, (_, value, _): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(cx.side(value).copied().unwrap_or_default()))
    }

    fn process(&mut self, (input, _, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(value) = cx.take(input) {
            cx.emit(output, value + self.0);
        }
        Ok(Flow::Continue)
    }
}

/// Emits nothing, and says so: each integer that comes is the bound of its output.
pub(crate) struct Hint;

impl Calculator for Hint {
    const NAME: &'static str = "HintCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(bound) = cx.take(input) {
            cx.bound(output, Timestamp::new(bound));
        }
        Ok(Flow::Continue)
    }
}
