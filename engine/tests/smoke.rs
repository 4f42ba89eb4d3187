use graphmill_engine::testing::Harness;
use graphmill_engine::*;

struct Pass;
impl Calculator for Pass {
    const NAME: &'static str = "PassThroughCalculator";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, Outs<dyn Payload>);
    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let inputs = c.inputs("");
        (inputs, c.outputs_same_as("", inputs))
    }
    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, (i, o): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        for (i, o) in i.iter().zip(o.iter()) {
            cx.forward(i, o);
        }
        Ok(Flow::Continue)
    }
}

#[test]
fn diamond() {
    let mut h = Harness::of::<Pass>(
        r#"input_stream: "a"
node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "b"  }
node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "c"  }
node { calculator: "PassThroughCalculator" input_stream: "b" input_stream: "c" output_stream: "x" output_stream: "y"  }"#,
    );
    h.push("a", 1, 1i64).push("a", 2, 2i64).expect("x", [(1, 1i64), (2, 2)]);
    h.finish();
}
