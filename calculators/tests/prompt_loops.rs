//! Loops whose items are prompts of a language model, with filters that drop some of them.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, Flow, In, OpenCx, Out, Payload, Registry, Result,
    testing::Harness,
};

use crate::chat::{Chat, script};

/// Passes on what comes, but for these timestamps.
struct Drops {
    times: Vec<i64>,
}

impl Calculator for Drops {
    const NAME: &'static str = "DropsCalculator";
    type Options = DropsOptions;
    type Ports = (In<dyn Payload>, Out<dyn Payload>);

    fn contract(c: &mut Contract, _: &DropsOptions) -> Self::Ports {
        let input = c.any("");
        (input, c.same_as("", input))
    }

    fn open(options: &DropsOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            times: options.times.clone(),
        })
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if !self.times.contains(&cx.time().value()) {
            cx.forward(input, output);
        }
        Ok(Flow::Continue)
    }
}

#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct DropsOptions {
    times: Vec<i64>,
}

/// Where a filter can stand.
const PLACES: [&str; 5] = ["document", "request", "prompt", "tokens", "answer"];

/// A map over documents, with a filter after the stream `place` that drops the items at `times`.
fn map(place: &str, times: &[i64]) -> String {
    let filter = format!(
        r#"node {{ calculator: "DropsCalculator" input_stream: "{place}" output_stream: "kept"
                  node_options {{ [type.googleapis.com/DropsCalculatorOptions] {{ times: {times:?} }} }} }}"#
    );
    let after = |stream: &str| if stream == place { "kept" } else { stream }.to_owned();
    let [document, request, prompt, tokens, answer] = PLACES.map(after);
    format!(
        r#"
        input_stream: "documents" output_stream: "answers" output_stream: "settled"
        input_side_packet: "llm"
        {filter}
        node {{ calculator: "BeginLoopStringCalculator" input_stream: "ITERABLE:documents" output_stream: "ITEM:document" output_stream: "BATCH_END:end" }}
        node {{ calculator: "TextToRequestCalculator" input_stream: "TEXT:{document}" output_stream: "HTTP_REQUEST_PAYLOAD:request" }}
        node {{ calculator: "OpenAIRequestCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "HTTP_REQUEST_PAYLOAD:{request}"
               output_stream: "REQUEST:checked" output_stream: "PARAMS:params" }}
        node {{ calculator: "ChatTemplateCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "REQUEST:checked" output_stream: "PROMPT:prompt" }}
        node {{ calculator: "TokenizerCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "PROMPT:{prompt}" output_stream: "TOKENS:tokens" }}
        node {{ calculator: "LLMCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "TOKENS:{tokens}" input_stream: "PARAMS:params"
               output_stream: "TOKENS:generated"
               node_options {{ [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{ models_path: "./" }} }} }}
        node {{ calculator: "DetokenizerCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "TOKENS:generated" input_stream: "PARAMS:params" output_stream: "TEXT:text" }}
        node {{ calculator: "TextAnswerCalculator" input_stream: "TEXT:text" input_stream: "PROMPT:{tokens}" output_stream: "TEXT:answer" }}
        node {{ calculator: "EndLoopStringCalculator" input_stream: "ITEM:{answer}" input_stream: "BATCH_END:end" output_stream: "ITERABLE:answers" }}
        node {{ calculator: "PacketPresenceCalculator" input_stream: "PACKET:answers" output_stream: "PRESENCE:settled" }}
        "#
    )
}

#[test]
fn a_loop_ends_at_once_whichever_of_its_items_are_dropped() {
    let chat = Chat::new(&script(&[
        ("one", "1"),
        ("two", "2"),
        ("three", "3"),
        ("four", "4"),
    ]));
    for place in PLACES {
        for dropped in [&[][..], &[0], &[1], &[2], &[1, 2], &[0, 1, 2]] {
            let registry = Registry::global().with::<Drops>();
            let environment =
                Environment::new(registry).with_resource("llm", Arc::clone(&chat.model));
            let mut h = Harness::new(&map(place, dropped), environment);
            let case = format!("{dropped:?} of `{place}`");
            let documents = ["one", "two", "three"].map(str::to_owned).to_vec();
            h.push("documents", 10, documents);
            h.block_until(|h| h.count("settled") == 1);
            let kept = (0..3).filter(|time| !dropped.contains(time));
            let answers: Vec<String> = kept.map(|time| (time + 1).to_string()).collect();
            let left = |h: &mut Harness| -> Vec<_> {
                let packets = h.packets("answers").into_iter();
                packets
                    .map(|packet| (packet.time.value(), packet.into_value::<Vec<String>>()))
                    .collect()
            };
            let expected = (!answers.is_empty()).then_some((10, Some(answers)));
            assert_eq!(left(&mut h), Vec::from_iter(expected), "{case}");
            // What comes next is not held up, nor held back.
            h.push("documents", 20, vec!["four".to_owned()]);
            h.block_until(|h| h.count("settled") == 2);
            assert_eq!(left(&mut h), [(20, Some(vec!["4".to_owned()]))], "{case}");
            h.finish();
        }
    }
}
