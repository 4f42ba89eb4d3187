//! Texts of models in; text and calls out, however the texts are divided.

use std::sync::Arc;

use serde_json::{Value, json};

use super::parser::{CallParser, ToolCallOutput};
use super::{CallFormat, FORMATS, Tools};

mod divided;
mod documented;
mod families;
mod grammar;
mod learned;
mod values;

/// What came out: the text, and each call's name and arguments.
type Outcome = (String, Vec<(String, String)>);

fn format(name: &str) -> Arc<CallFormat> {
    let family = FORMATS.named(name).expect("known");
    CallFormat::from_family(family.expect("a format"), "")
}

fn tools() -> Arc<Tools> {
    let tool = |name: &str, properties: Value| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}});
    Arc::new(Tools::new(&[
        tool(
            "f",
            json!({"text": {"type": "string"}, "count": {"type": "integer"}, "kind": {"enum": ["1", "b"]}}),
        ),
        tool("g", json!({})),
        json!({"type": "function", "function": {"name": "python"}}),
        json!({"type": "function", "function": {"name": "mixed", "parameters": mixed()}}),
    ]))
}

/// Arguments whose kinds are said in many ways.
fn mixed() -> Value {
    json!({
        "$ref": "#/$defs/all",
        "$defs": {
            "all": {
                "type": "object",
                "properties": {
                    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "either": {"type": ["string", "null"]},
                    "named": {"$ref": "#/$defs/name"},
                    "both": {"allOf": [{"type": "string"}, {"minLength": 1}]},
                    "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    "list": {"type": "array", "items": {"type": "string"}},
                    "fixed": {"const": "7"},
                },
                "required": ["list"],
            },
            "name": {"type": "string"},
        },
    })
}

fn parser(format: Arc<CallFormat>) -> CallParser {
    CallParser::new(format, tools(), false, usize::MAX)
}

/// Joins what a parser makes of pieces of a text.
fn joined<'a>(mut parser: CallParser, pieces: impl IntoIterator<Item = &'a str>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut add = |parsed: ToolCallOutput| {
        outcome.0.push_str(&parsed.text);
        for delta in parsed.calls {
            if let Some(start) = delta.start {
                assert!(start.id.len() >= 9, "{}", start.id);
                outcome.1.push((start.name, String::new()));
            }
            assert_eq!(
                delta.index as usize + 1,
                outcome.1.len(),
                "calls come in order"
            );
            outcome.1[delta.index as usize].1.push_str(&delta.arguments);
        }
    };
    for piece in pieces {
        add(parser.push(piece, false));
    }
    add(parser.push("", true));
    outcome
}

/// The outcome of a whole text, which is that of its characters one by one, and of any two pieces.
fn parse(name: &str, text: &str) -> Outcome {
    parse_as(&format(name), text)
}

fn parse_as(format: &Arc<CallFormat>, text: &str) -> Outcome {
    let parser = || parser(Arc::clone(format));
    let whole = joined(parser(), [text]);
    let ends = text
        .char_indices()
        .map(|(at, c)| &text[at..at + c.len_utf8()]);
    assert_eq!(joined(parser(), ends), whole, "{text}");
    for (at, _) in text.char_indices() {
        let (one, other) = text.split_at(at);
        assert_eq!(joined(parser(), [one, other]), whole, "{one} | {other}");
    }
    whole
}

fn outcome<const N: usize>(text: &str, calls: [(&str, &str); N]) -> Outcome {
    let calls = calls.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
    (text.to_owned(), calls.to_vec())
}

#[test]
fn hermes_calls_stand_between_tags() {
    let one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
    assert_eq!(parse("hermes", one), outcome("", [("f", "{\"x\": 1}")]));
    let two = "Let me see.\n<tool_call>{\"arguments\": {\"s\": \"</tool_call>\"}, \"name\": \"f\"}</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call> Done.";
    assert_eq!(
        parse("hermes", two),
        outcome(
            "Let me see.Done.",
            [("f", "{\"s\": \"</tool_call>\"}"), ("g", "{}")]
        )
    );
    // The model ended its turn instead of closing the tag.
    let open = "<tool_call>{\"name\": \"f\", \"arguments\": {}}";
    assert_eq!(parse("hermes", open), outcome("", [("f", "{}")]));
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": [1]}\"}</tool_call>";
    assert_eq!(parse("hermes", text), outcome("", [("f", "{\"x\": [1]}")]));
}

#[test]
fn a_call_that_is_none_comes_back_as_the_text_that_it_is() {
    for text in [
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": }}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>f(1)</tool_call>",
        "Write \n <tool_call> to call. \n",
        "a <tool",
    ] {
        assert_eq!(parse("hermes", text), outcome(text, []), "{text}");
    }
    // What follows is read all the same.
    let text = "<tool_call>{bad}</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call>";
    assert_eq!(
        parse("hermes", text),
        outcome("<tool_call>{bad}</tool_call>", [("g", "{}")])
    );
}

#[test]
fn llama3_calls_are_json_with_or_without_a_tag() {
    let bare =
        "{\"name\": \"f\", \"parameters\": {\"x\": 1}}; {\"name\": \"g\", \"parameters\": {}}";
    let both = outcome("", [("f", "{\"x\": 1}"), ("g", "{}")]);
    assert_eq!(parse("llama3", bare), both);
    assert_eq!(parse("llama3", &format!("<|python_tag|>{bare}")), both);
    let built_in = "<|python_tag|>brave_search.call(query=\"a \\\"b\\\"\", n = \"1\")";
    assert_eq!(
        parse("llama3", built_in),
        outcome(
            "",
            [("brave_search", "{\"query\":\"a \\\"b\\\"\",\"n\":\"1\"}")]
        )
    );
    let program = "<|python_tag|>import math\nprint(math.pi)\n";
    assert_eq!(
        parse("llama3", program),
        outcome(
            "",
            [("python", "{\"code\":\"import math\\nprint(math.pi)\"}")]
        )
    );
    // JSON that is an answer stays one.
    for text in [
        "{\"name\": \"Ann\", \"age\": 5}",
        "{\"city\": 1}",
        "So: {\"name\": \"f\"}",
    ] {
        assert_eq!(parse("llama3", text), outcome(text, []));
    }
}

#[test]
fn mistral_calls_are_an_array_or_names_with_arguments() {
    let array = "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}, \"id\": \"123456789\"}, {\"name\": \"g\", \"arguments\": {}}]";
    let both = outcome("", [("f", "{\"x\": 1}"), ("g", "{}")]);
    assert_eq!(parse("mistral", array), both);
    let named = "[TOOL_CALLS]f[ARGS]{\"x\": 1}[TOOL_CALLS]g{}";
    assert_eq!(parse("mistral", named), both);
    let with_id = "Sure.[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"x\": 1}";
    assert_eq!(
        parse("mistral", with_id),
        outcome("Sure.", [("f", "{\"x\": 1}")])
    );
    let ids = parser(format("mistral")).push(named, true).calls;
    assert!(
        ids.iter()
            .flat_map(|call| &call.start)
            .all(|start| start.id.len() == 9)
    );
    let bad = "[TOOL_CALLS] [{\"name\": \"f\"}, 5]";
    assert_eq!(parse("mistral", bad), outcome(bad, []));
}

#[test]
fn phi4_calls_follow_a_word() {
    let calls = "[{\"name\": \"f\", \"arguments\": {\"x\": 1}}]";
    let one = outcome("Ok", [("f", "{\"x\": 1}")]);
    assert_eq!(parse("phi4", &format!("Ok functools{calls}")), one);
    assert_eq!(
        parse("phi4", &format!("Ok<|tool_call|>{calls}<|/tool_call|>")),
        one
    );
    assert_eq!(
        parse("phi4", "functools is a module"),
        outcome("functools is a module", [])
    );
}

#[test]
fn qwen3coder_values_have_the_kind_that_the_tool_wants() {
    let text = "Now.\n\n<tool_call>\n<function=f>\n<parameter=text>\n5\n\n</parameter>\n<parameter=count>\n7\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n<parameter=kind>1</parameter>\n<parameter=note>a <b> \"c\"</parameter>\n</function>\n</tool_call>";
    let arguments =
        json!({"text": "5\n", "count": 7, "flag": true, "kind": "1", "note": "a <b> \"c\""});
    assert_eq!(
        parse("qwen3coder", text),
        outcome("Now.", [("f", &arguments.to_string())])
    );
    let bare = "<function=g></function><tool_call><function=g>\n</function></tool_call>";
    assert_eq!(
        parse("qwen3_coder", bare),
        outcome("", [("g", "{}"), ("g", "{}")])
    );
    // Marks of its own, and no new lines around the values.
    let seed = "<seed:tool_call>\n<function=f>\n<parameter=text>\n5\n</parameter>\n<parameter=count>7</parameter>\n</function>\n</seed:tool_call>";
    let arguments = json!({"text": "\n5\n", "count": 7});
    assert_eq!(
        parse("seed_oss", seed),
        outcome("", [("f", &arguments.to_string())])
    );
    let cut = "<tool_call><function=f><parameter=text>abc";
    assert_eq!(parse("qwen3coder", cut), outcome(cut, []));
}

#[test]
fn gptoss_calls_are_messages_to_functions() {
    let call =
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": 1}<|call|>";
    let one = outcome("", [("f", "{\"x\": 1}")]);
    assert_eq!(parse("gptoss", call), one);
    assert_eq!(parse("gptoss", &format!("<|start|>assistant{call}")), one);
    let in_role = " to=functions.f<|channel|>commentary json<|message|>{\"x\": 1}";
    assert_eq!(parse("gptoss", in_role), one);
    let other = "<|channel|>final<|message|>Hi";
    assert_eq!(parse("gptoss", other), outcome(other, []));
}

#[test]
fn deepseek_calls_stand_between_marks() {
    let v3 = "Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": 1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    let both = outcome("Ok", [("f", "{\"x\": 1}"), ("g", "{}")]);
    assert_eq!(parse("deepseek", v3), both);
    let v31 = "Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    assert_eq!(parse("deepseek", v31), both);
}

#[test]
fn calls_in_plain_json_name_a_tool_of_the_request() {
    let one = outcome("", [("f", "{\"x\": 1}")]);
    for text in [
        "{\"name\": \"f\", \"arguments\": {\"x\": 1}}",
        "[{\"name\": \"f\", \"parameters\": {\"x\": 1}}]",
        "```json\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n```\n",
        "```\n[{\"tool\": \"f\", \"args\": {\"x\": 1}}]\n```",
        "{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"x\": 1}}]}",
        "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1}}}",
    ] {
        assert_eq!(parse("json", text), one, "{text}");
    }
    for text in [
        "{\"name\": \"Ann\", \"arguments\": {}}",
        "```python\nf(1)\n```",
        "[1, 2]",
        "{\"answer\": 5}",
    ] {
        assert_eq!(parse("json", text), outcome(text, []), "{text}");
    }
    // An object that cannot be a call is not held back.
    let mut parser = parser(format("json"));
    assert_eq!(parser.push("{\"answer\": ", false).text, "{\"answer\":");
}

#[test]
fn an_eager_parser_passes_arguments_on_as_they_come() {
    let mut parser = CallParser::new(format("hermes"), tools(), true, usize::MAX);
    let mut pushed = |text: &str| {
        let calls = parser.push(text, false).calls;
        let name = |start: &crate::payload::ToolCallStart| start.name.clone();
        calls
            .iter()
            .map(|call| (call.start.as_ref().map(name), call.arguments.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(pushed("<tool_call>{\"name\": \"f\", \"argu"), []);
    assert_eq!(
        pushed("ments\": {\"x\": [1"),
        [(Some("f".to_owned()), "{\"x\": [1".to_owned())]
    );
    assert_eq!(pushed(", 2]}"), [(None, ", 2]}".to_owned())]);
    assert_eq!(pushed("}</tool_call>"), []);
}

#[test]
fn one_call_may_be_all() {
    let text = "[TOOL_CALLS] [{\"name\": \"f\"}, {\"name\": \"g\"}] and more";
    let single = |pieces: Vec<&str>| {
        let parser = CallParser::new(format("mistral"), tools(), false, 1);
        joined(parser, pieces)
    };
    assert_eq!(single(vec![text]), outcome("", [("f", "{}")]));
    let ends = text.char_indices().map(|(at, _)| &text[at..=at]);
    assert_eq!(single(ends.collect()), outcome("", [("f", "{}")]));
}

#[test]
fn a_template_tells_its_format() {
    let name = |template: &str| FORMATS.taught_by(template).map(|taught| taught.names[0]);
    for (template, expected) in [
        (
            "{{ '<|start|>assistant<|channel|>final<|message|>' }}",
            "gptoss",
        ),
        (
            "<tool_call>\n<function=x>\n<parameter=y>\n</tool_call>",
            "qwen3coder",
        ),
        ("functools[", "phi4"),
        ("[AVAILABLE_TOOLS]", "mistral"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", "deepseek"),
        ("<|python_tag|>", "llama3"),
        ("<tool_call></tool_call>", "hermes"),
        ("'<|tool_call>call:'", "gemma4"),
        ("<tool_call> <arg_key> <arg_value> </tool_call>", "glm45"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>", "kimi_k2"),
        (
            "<minimax:tool_call> <invoke name= <parameter name=",
            "minimax_m2",
        ),
        ("<|tool_list_start|>", "lfm2"),
        ("dsml_token = '｜DSML｜' function_calls", "deepseek_v32"),
        ("<|start_of_role|> <|tool_call|>", "granite"),
        ("<|tool|> <|/tool|>", "phi4"),
        ("<|START_ACTION|>", "command_r"),
        ("<|tools_prefix|>", "apertus"),
        ("<function_calls>", "olmo3"),
        ("<tool_calls></tool_calls>", "hunyuan"),
        ("<TOOLCALL>", "nemotron"),
        ("<function name=\"x\"><param name=\"y\">", "minicpm5"),
        ("<atem:function_calls>", "onyx"),
        ("<seed:tool_call> <function=x> <parameter=y>", "seed_oss"),
        ("<|python_start|>", "pythonic"),
        ("{{ messages }}", "json"),
    ] {
        assert_eq!(name(template), Some(expected), "{template}");
    }
    // Those of OpenVINO Model Server.
    for known in [
        "llama3",
        "hermes3",
        "phi4",
        "mistral",
        "gptoss",
        "qwen3coder",
        "devstral",
        "lfm2",
        "gemma4",
        "onyx",
        "minicpm5",
    ] {
        assert!(FORMATS.named(known).is_ok(), "{known}");
    }
    assert!(matches!(FORMATS.named("none"), Ok(None)));
    assert!(matches!(FORMATS.named(""), Ok(None)));
    assert!(
        FORMATS
            .named("hermes4")
            .is_err_and(|message| message.contains("hermes4") && message.contains("qwen3coder"))
    );
}

#[test]
fn no_opener_begins_another() {
    for format in FORMATS.all {
        let format = CallFormat::from_family(format.format, "");
        let openers = &format.openers;
        for (index, opener) in openers.iter().enumerate() {
            assert!(!opener.text.is_empty());
            for (other, longer) in openers.iter().enumerate() {
                assert!(index == other || !longer.text.starts_with(&*opener.text));
            }
        }
    }
}
