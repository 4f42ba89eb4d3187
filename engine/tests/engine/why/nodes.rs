//! Nodes that wait, each in its own way.

use std::{future::pending, sync::Barrier};

use graphmill_engine::{
    AsyncCalculator, Calculator, Contract, Cx, Emits, EventSender, Events, Flow, In, InputSet,
    NoOptions, Offset, OpenCx, Out, Policy, Result, Side,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Never answers.
pub(super) struct Never;

impl AsyncCalculator for Never {
    const NAME: &'static str = "NeverCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(&mut self, _: Self::Ports, _: InputSet, _: &mut Emits) -> Result<Flow> {
        pending().await
    }
}

/// Waits for events that nobody sends.
pub(super) struct Listen(Option<EventSender<()>>);

impl Calculator for Listen {
    const NAME: &'static str = "ListenCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output(""), c.events())
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(None))
    }

    fn process(&mut self, (_, _, events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.0 = Some(cx.sender(events));
        Ok(Flow::Continue)
    }
}

/// Waits for events that nobody sends, once it has had a packet of each input.
pub(super) struct Pair(Option<EventSender<()>>);

impl Calculator for Pair {
    const NAME: &'static str = "PairCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, In<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input("A"), c.input("B"), c.output(""), c.events())
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(None))
    }

    fn process(&mut self, (.., events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        self.0 = Some(cx.sender(events));
        Ok(Flow::Continue)
    }
}

/// Waits for words from outside once it was asked for some. Each brings its own credit around the
/// loop.
pub(super) struct Words {
    words: Option<EventSender<()>>,
    options: WordsOptions,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct WordsOptions {
    /// The words may come only after the back edge has brought something.
    spent: bool,
    /// It panics when it is asked what it waits for.
    panics: bool,
}

impl Calculator for Words {
    const NAME: &'static str = "WordsCalculator";
    type Options = WordsOptions;
    type Ports = (In<i64>, In<i64>, Out<i64>, Out<i64>, Events<()>);

    fn contract(c: &mut Contract, _: &WordsOptions) -> Self::Ports {
        c.policy(Policy::Immediate);
        c.offset(Offset::Unset);
        (
            c.input("ASK"),
            c.input("LOOP"),
            c.output("WORDS"),
            c.output("LOOP"),
            c.events(),
        )
    }

    fn open(options: &WordsOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            words: None,
            options: options.clone(),
        })
    }

    fn process(&mut self, (ask, .., events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.get(ask).is_some() {
            self.words = Some(cx.sender(events));
        }
        Ok(Flow::Continue)
    }

    fn waits_for(&self) -> Option<String> {
        assert!(!self.options.panics, "told to");
        (!self.options.spent).then(|| "the third word".to_owned())
    }
}

/// Says what its call waits for.
pub(super) struct Says;

impl AsyncCalculator for Says {
    const NAME: &'static str = "SaysCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.parallel();
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    async fn process(&mut self, _: Self::Ports, set: InputSet, out: &mut Emits) -> Result<Flow> {
        let number = set.time();
        out.waits_for(move || format!("letter {number}"));
        pending().await
    }
}

/// Tells a test that its call has begun, and ends it when the test says so.
pub(super) struct Gate;

/// Where a [`Gate`] meets its test.
pub(super) static BEGUN: Barrier = Barrier::new(2);
pub(super) static END: Barrier = Barrier::new(2);

impl Calculator for Gate {
    const NAME: &'static str = "GateOfTestCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.input(""), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        BEGUN.wait();
        END.wait();
        Ok(Flow::Continue)
    }
}

/// Emits each input ten times on its first output, and nothing on its second.
pub(super) struct Lopsided;

impl Calculator for Lopsided {
    const NAME: &'static str = "LopsidedCalculator";
    type Options = NoOptions;
    type Ports = (In<i64>, Out<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output("MANY"), c.output("NONE"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (_, many, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let first = cx.time().value() * 10;
        (first..first + 10).for_each(|at| cx.emit_at(many, at, at));
        Ok(Flow::Continue)
    }
}

/// A source that needs a side packet.
pub(super) struct Needy;

impl Calculator for Needy {
    const NAME: &'static str = "NeedyCalculator";
    type Options = NoOptions;
    type Ports = (Side<i64>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.side("VALUE"), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
