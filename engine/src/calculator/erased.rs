//! Calculators with their types erased, as plans hold them and sessions call them.

use std::{future::Future, pin::Pin};

use crate::{
    calculator::{AsyncCalculator, Calculator, Flow},
    context::{Cx, OpenCx},
    emits::Emits,
    error::{Error, Result},
    input::InputSet,
};

/// Makes the node of one session. A plan has one factory per node.
pub(crate) type Factory = Box<dyn Fn(&mut OpenCx<'_>) -> Result<Instance> + Send + Sync>;

/// Node of one session, with its calls either plain or futures.
pub(crate) enum Instance {
    Sync(Box<dyn ErasedNode>),
    Async(Box<dyn AsyncNode>),
}

/// Result of a call. Errors are large; a boxed one keeps the usual result small enough for a
/// register.
pub(crate) type CallResult<T> = Result<T, Box<Error>>;

pub(crate) trait ErasedNode: Send {
    fn process(&mut self, cx: &mut Cx<'_>) -> CallResult<Flow>;
    fn is_light(&self, set: &InputSet) -> bool;
    fn close(&mut self, cx: &mut Cx<'_>) -> CallResult<()>;
    fn waits_for(&self) -> Option<String>;
}

pub(crate) trait AsyncNode: Send {
    /// Moves the node into the future of one call. The future returns it with the outcome.
    fn process(
        self: Box<Self>,
        set: InputSet,
        out: Emits,
    ) -> Pin<Box<dyn Future<Output = AsyncReturn> + Send>>;
    fn close(&mut self, cx: &mut Cx<'_>) -> CallResult<()>;
}

/// The result of an async call, together with the node.
pub(crate) struct AsyncReturn {
    pub(crate) node: Box<dyn AsyncNode>,
    pub(crate) out: Emits,
    pub(crate) flow: Result<Flow>,
}

/// Makes the factory of a calculator.
pub(crate) fn factory<C: Calculator>(options: C::Options, io: C::Ports) -> Factory {
    Box::new(move |cx: &mut OpenCx<'_>| {
        let calculator = C::open(&options, io.clone(), cx)?;
        let io = io.clone();
        Ok(Instance::Sync(Box::new(BoundCalculator { calculator, io })))
    })
}

/// Makes the factory of an async calculator.
pub(crate) fn async_factory<C: AsyncCalculator>(options: C::Options, io: C::Ports) -> Factory {
    Box::new(move |cx: &mut OpenCx<'_>| {
        let calculator = C::open(&options, io.clone(), cx)?;
        let io = io.clone();
        Ok(Instance::Async(Box::new(BoundCalculator {
            calculator,
            io,
        })))
    })
}

/// A calculator with the handles of its ports.
struct BoundCalculator<C, P> {
    calculator: C,
    io: P,
}

impl<C: Calculator> ErasedNode for BoundCalculator<C, C::Ports> {
    fn process(&mut self, cx: &mut Cx<'_>) -> CallResult<Flow> {
        self.calculator
            .process(self.io.clone(), cx)
            .map_err(Box::new)
    }

    fn is_light(&self, set: &InputSet) -> bool {
        self.calculator.is_light(self.io.clone(), set)
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> CallResult<()> {
        self.calculator.close(self.io.clone(), cx).map_err(Box::new)
    }

    fn waits_for(&self) -> Option<String> {
        self.calculator.waits_for()
    }
}

impl<C: AsyncCalculator> AsyncNode for BoundCalculator<C, C::Ports> {
    fn process(
        mut self: Box<Self>,
        set: InputSet,
        mut out: Emits,
    ) -> Pin<Box<dyn Future<Output = AsyncReturn> + Send>> {
        Box::pin(async move {
            let flow = self
                .calculator
                .process(self.io.clone(), set, &mut out)
                .await;
            AsyncReturn {
                node: self,
                out,
                flow,
            }
        })
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> CallResult<()> {
        self.calculator.close(self.io.clone(), cx).map_err(Box::new)
    }
}
