//! Tool calls that a request demands, or whose tools are strict: their form is enforced.

use serde_json::{Value, json};

use super::tools::{answer, model, request};
use super::{Chat, body};

/// Marks that many vocabularies have tokens for.
const MARKS: [&str; 29] = [
    "<tool_call>",
    "</tool_call>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_start|>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<|tools_prefix|>",
    "<|tools_suffix|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
];

/// Marks in the chat templates of the families, by which their formats are chosen.
pub(super) const FAMILIES: [&str; 29] = [
    "<tool_call></tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS] [ARGS]",
    "functools",
    "<function= <parameter=",
    "<|channel|>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁begin｜> ```json",
    "<|tool_call>",
    "<arg_key> <arg_value>",
    "<arg_key> </arg_key><arg_value>",
    "<|tool_calls_section_begin|>",
    "<minimax:tool_call>",
    "<|tool_call_start|>",
    "DSML function_calls",
    "DSML",
    "<|START_ACTION|>",
    "<|tools_prefix|>",
    "<tool_calls> </tool_calls>",
    "<TOOLCALL>",
    "<function_calls>",
    "<function name=\" <param name=\"",
    "<seed:tool_call>",
    "<|tool_call|> <|start_of_role|>",
    "<|/tool|>",
    "<atem:function_calls>",
    "<|python_start|>",
    "",
];

/// A tool whose arguments have to be just so.
fn weather() -> Value {
    json!({"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object",
        "properties": {"unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["unit", "days"],
    }}})
}

#[test]
fn a_demanded_call_is_right_whatever_the_model_would_say() {
    for mark in FAMILIES {
        // It would rather end its turn, or not think in harmony.
        let reply = match mark {
            "<|channel|>" => "<|channel|>commentary",
            "<atem:function_calls>" => " to=weather<|message|>",
            _ => "",
        };
        let named = json!({"type": "function", "function": {"name": "weather"}});
        for (choice, specials, reason_of_choice) in [
            (json!("required"), json!([]), "tool_calls"),
            (named, json!(MARKS), "stop"),
        ] {
            let mut script = model(mark, reply);
            script["special_tokens"] = specials;
            let chat = Chat::new(&script);
            let asked = json!({"tools": [weather()], "tool_choice": choice, "parallel_tool_calls": false, "temperature": 0, "max_tokens": 2000});
            let (message, reason) = answer(&chat, &request(asked));
            let calls = message["tool_calls"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            let [call] = calls else {
                panic!("{mark}: {message}")
            };
            assert_eq!(call["function"]["name"], "weather", "{mark}");
            let arguments = call["function"]["arguments"].as_str().expect("text");
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            assert!(
                ["celsius", "kelvin"]
                    .iter()
                    .any(|unit| arguments["unit"] == *unit),
                "{arguments}"
            );
            assert!(
                arguments["days"]
                    .as_i64()
                    .is_some_and(|days| (1..=9).contains(&days)),
                "{arguments}"
            );
            assert_eq!(arguments.as_object().map(serde_json::Map::len), Some(2));
            assert_eq!(
                (&message["content"], &*reason),
                (&Value::Null, reason_of_choice),
                "{mark}"
            );
        }
    }
}

#[test]
fn a_demanded_call_comes_after_reasoning() {
    let mut script = model("<think></think> <tool_call></tool_call>", "Hm.</think>\n\n");
    let template = script["chat_template"]
        .as_str()
        .expect("text")
        .replace("assistant\n", "assistant\n<think>");
    script["chat_template"] = template.into();
    let chat = Chat::new(&script);
    let asked = json!({"tools": [weather()], "tool_choice": "required", "parallel_tool_calls": false, "temperature": 0, "max_tokens": 2000, "thinking_token_budget": 2});
    let (message, _) = answer(&chat, &request(asked));
    assert_eq!(message["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(message["reasoning_content"].as_str().map(str::len), Some(2));
}

#[test]
fn a_demanded_call_that_is_cut_says_so_in_every_dialect() {
    let chat = Chat::new(&model("<tool_call></tool_call>", ""));
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "minLength": 300}}, "required": ["x"]});
    let f = json!({"type": "function", "function": {"name": "f", "parameters": schema}});
    let named = json!({"type": "function", "function": {"name": "f"}});
    for parallel in [true, false] {
        let asked = json!({"tools": [f], "tool_choice": named, "parallel_tool_calls": parallel, "temperature": 0, "max_tokens": 60});
        let (message, reason) = answer(&chat, &request(asked));
        assert_eq!(message["tool_calls"][0]["function"]["name"], "f");
        assert_eq!(reason, "length");
    }
    let message = json!({
        "model": "m", "max_tokens": 60, "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "f", "input_schema": schema}], "tool_choice": {"type": "tool", "name": "f"},
    });
    let answer = body(&chat.ask("/v1/messages", &message));
    assert_eq!(answer["stop_reason"], "max_tokens");
    let response = json!({
        "model": "m", "max_output_tokens": 60, "input": "Hi", "parallel_tool_calls": false,
        "tools": [{"type": "function", "name": "f", "parameters": schema}],
        "tool_choice": {"type": "function", "name": "f"},
    });
    let answer = body(&chat.ask("/v1/responses", &response));
    assert_eq!(answer["status"], "incomplete");
    assert_eq!(answer["incomplete_details"]["reason"], "max_output_tokens");
}

#[test]
fn a_demanded_call_that_is_cut_before_its_name_is_no_content() {
    let deepseek = "<｜tool▁call▁begin｜>";
    let hermes = "<tool_call></tool_call>";
    for (mark, open, call) in [
        (
            deepseek,
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        ),
        (
            hermes,
            "",
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>\n",
        ),
    ] {
        let chat = Chat::new(&model(mark, &format!("{open}{call}{call}")));
        let whole = open.len() + call.len();
        for cut in [3, open.len() + 4, whole + 9, whole + 15] {
            let asked = json!({"tool_choice": "required", "temperature": 0, "max_tokens": cut});
            let (message, reason) = answer(&chat, &request(asked));
            let content = message["content"].as_str().unwrap_or_default();
            assert_eq!((content, &*reason), ("", "length"), "{mark}: {cut}");
        }
    }
}

#[test]
fn calls_of_strict_tools_are_right_wherever_the_model_decides_for_them() {
    let mut tool = weather();
    tool["function"]["strict"] = true.into();
    for (mark, opener) in [
        ("<tool_call></tool_call>", "<tool_call>"),
        ("[TOOL_CALLS]", "[TOOL_CALLS]"),
        ("functools", "functools["),
        ("<function= <parameter=", "<tool_call>"),
        ("<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>"),
        ("<|tool_call>", "<|tool_call>"),
        ("<arg_key> <arg_value>", "<tool_call>"),
        (
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_begin|>",
        ),
        ("<minimax:tool_call>", "<minimax:tool_call>"),
        ("<|tool_call_start|>", "<|tool_call_start|>"),
    ] {
        let reply = format!("I < you. {opener}");
        let mut script = model(mark, &reply);
        for specials in [json!([]), json!([opener])] {
            if opener == "functools[" && specials != json!([]) {
                // a word, which no vocabulary has a special token for
                continue;
            }
            script["special_tokens"] = specials;
            let chat = Chat::new(&script);
            let asked = json!({"tools": [tool], "parallel_tool_calls": false, "temperature": 0, "max_tokens": 2000});
            let (message, reason) = answer(&chat, &request(asked));
            assert_eq!(message["content"], "I < you.", "{mark}");
            let arguments = message["tool_calls"][0]["function"]["arguments"].as_str();
            let arguments: Value = serde_json::from_str(arguments.expect("a call")).expect("JSON");
            assert!(
                arguments["days"].is_i64() && arguments["unit"].is_string(),
                "{mark}: {arguments}"
            );
            assert_eq!(reason, "tool_calls");
        }
        let chat = Chat::new(&model(mark, "No call <tool."));
        let (message, reason) = answer(&chat, &request(json!({"tools": [tool]})));
        assert_eq!(
            (message["content"].as_str(), &*reason),
            (Some("No call <tool."), "stop")
        );
    }
}

#[test]
fn strict_tools_leave_harmony_its_answers() {
    let mut tool = weather();
    tool["function"]["strict"] = true.into();
    let asked = json!({"tools": [tool], "temperature": 0, "max_tokens": 2000});
    let reply =
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>No.";
    let (message, reason) = answer(
        &Chat::new(&model("<|channel|>", reply)),
        &request(asked.clone()),
    );
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!((&message["content"], &*reason), (&json!("No."), "stop"));
    let reply = "<|channel|>commentary to=functions.weather";
    let (message, reason) = answer(&Chat::new(&model("<|channel|>", reply)), &request(asked));
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str();
    let arguments: Value = serde_json::from_str(arguments.expect("a call")).expect("JSON");
    assert!(arguments["days"].is_i64() && arguments["unit"].is_string());
    assert_eq!(reason, "tool_calls");
}
