//! A model of one's own whose requests are batched.

use graphmill_calculators::tensor::batch::{BatchedModel, DynamicBatch};
use graphmill_calculators::tensor::{Datatype, Tensor, TensorInfo, TensorModel};
use graphmill_engine::{Contract, Error, FileSource, Resource, Result, register_async};

/// Multiplies numbers by a factor.
pub struct Scale {
    factor: f32,
    input: [TensorInfo; 1],
    output: [TensorInfo; 1],
}

/// What a graph says about the model.
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleOptions {
    thousandths: u32,
}

impl Resource for Scale {
    type Spec = u32;

    fn load(thousandths: &u32, _: &dyn FileSource) -> Result<Self> {
        let numbers = |name: &str| TensorInfo {
            name: name.to_owned(),
            datatype: Datatype::Fp32,
            shape: vec![-1, 4],
        };
        Ok(Self {
            factor: *thousandths as f32 / 1000.0,
            input: [numbers("x")],
            output: [numbers("y")],
        })
    }
}

impl TensorModel for Scale {
    fn inputs(&self) -> &[TensorInfo] {
        &self.input
    }

    fn outputs(&self) -> &[TensorInfo] {
        &self.output
    }

    // One call for all requests of a batch: dimension 0 has the rows of all of them.
    fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let (numbers, _) = inputs[0].data().as_chunks();
        let scaled = numbers
            .iter()
            .flat_map(|number| (f32::from_le_bytes(*number) * self.factor).to_le_bytes());
        let output = Tensor::new(
            Datatype::Fp32,
            inputs[0].shape(),
            scaled.collect::<Vec<u8>>(),
        );
        Ok(vec![output.map_err(|error| {
            Error::internal("no tensor").with_source(error)
        })?])
    }
}

impl BatchedModel for Scale {
    const NAME: &'static str = "ScaleCalculator";
    const DOC: &'static str = "Multiplies numbers by a factor, batched.";
    type Options = ScaleOptions;

    fn spec(options: &ScaleOptions, _: &mut Contract) -> u32 {
        options.thousandths
    }
}
register_async!(DynamicBatch<Scale>);
