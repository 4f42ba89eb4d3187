//! Random texts of pieces of all formats, divided anywhere.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::{CallFormat, CallParser, FORMATS, joined, tools};

/// Pieces of test texts: those of all formats, and some of no format.
const PIECES: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<seed:tool_call>",
    "<|tool_call>call:",
    "<tool_call|>",
    "f{",
    "text:",
    "<|\"|>",
    "<｜DSML｜function_calls>",
    "</｜DSML｜function_calls>",
    "<｜DSML｜invoke name=\"f\">",
    "</｜DSML｜invoke>",
    "<｜DSML｜parameter name=\"text\" string=\"true\">",
    "<｜DSML｜parameter name=\"x\" string=\"false\">",
    "</｜DSML｜parameter>",
    "<arg_key>text</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<minimax:tool_call>",
    "<invoke name=\"f\">",
    "<parameter name=\"count\">",
    "</invoke>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>functions.f:0",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_start|>[",
    "]<|tool_call_end|>",
    "f(text=",
    "'a\\'b'",
    "<|START_ACTION|>[",
    "<|tools_prefix|>[{\"f\": ",
    "<tool_calls>",
    "<TOOLCALL>[",
    "<function_calls>",
    "<function name=\"f\">",
    "<param name=\"text\">",
    "<![CDATA[",
    "]]>",
    "</param>",
    "<atem:function_calls><atem:invoke name=\"f\">",
    "<function=",
    "f>",
    "</function>",
    "<parameter=",
    "text>",
    "count>",
    "</parameter>",
    "<|python_tag|>",
    "brave.call(",
    "q=\"a\"",
    ")",
    "; ",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "functools",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|start|>assistant",
    "<|channel|>",
    "commentary",
    " to=functions.f",
    "<|constrain|>json",
    "<|message|>",
    "<|call|>",
    "<|end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "function",
    "<｜tool▁sep｜>",
    "```json\n",
    "\n```",
    "```",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\n",
    "\"",
    "\\",
    "\"name\"",
    "\"f\"",
    "\"g\"",
    "\"arguments\"",
    "\"parameters\"",
    "\"x\": 1",
    "{\"a\": \"é\"}",
    "{\"name\": \"f\", \"arguments\": {\"x\": [1, \"}\"]}}",
    "{\"name\": \"f\", \"arguments\": ",
    "{\"tool_calls\": [",
    "f",
    "Text.",
    "é",
    "<",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_division_gives_the_same_text_and_calls(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24),
        cuts in prop::collection::vec(1usize..9, 1..30),
        number in 0..FORMATS.all.len(),
        eager: bool,
        limit in prop::sample::select(vec![1, usize::MAX]),
    ) {
        let text = pieces.concat();
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts.iter().cycle() {
            let Some((at, _)) = rest.char_indices().nth(*cut) else { break };
            let (part, remainder) = rest.split_at(at);
            parts.push(part);
            rest = remainder;
        }
        parts.push(rest);
        let format = CallFormat::from_family(FORMATS.all[number].format, "");
        let parser = || CallParser::new(Arc::clone(&format), tools(), eager, limit);
        let whole = joined(parser(), [text.as_str()]);
        prop_assert_eq!(&joined(parser(), parts), &whole);
        if !eager {
            for (_, arguments) in &whole.1 {
                prop_assert!(serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()));
            }
        }
        if whole.1.is_empty() {
            prop_assert_eq!(whole.0, text);
        }
    }
}
