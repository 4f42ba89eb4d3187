//! Values that are not written as JSON, by what the schema of their parameter says.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{CallParser, Tools, format, joined, outcome, parse};

/// The arguments of a call with one argument, which has this schema.
fn argument(family: &str, schema: &Value, call: &str) -> String {
    let parameters = json!({"type": "object", "properties": {"q": schema}, "$defs": {"a<b>": {"$anchor": "s", "type": "string"}}});
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": parameters}});
    let tools = Arc::new(Tools::new(&[tool]));
    let parser = CallParser::new(format(family), tools, false, usize::MAX);
    let (text, mut calls) = joined(parser, [call]);
    assert_eq!((&*text, calls.len()), ("", 1), "{call}");
    calls.remove(0).1
}

#[test]
fn texts_are_the_values_that_their_schema_lists() {
    for (schema, written, read) in [
        (json!({"enum": ["1", 2]}), "1", r#""1""#),
        (json!({"enum": ["1", 2]}), "2", "2"),
        (json!({"enum": ["a", 2]}), "3", r#""3""#),
        (json!({"enum": ["1", 1.5, null]}), "1.50", "1.50"),
        (json!({"enum": ["1", 1.5, null]}), "None", "null"),
        (
            json!({"anyOf": [{"type": "string"}, {"enum": [2]}]}),
            "1",
            r#""1""#,
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"const": 2}]}),
            "2",
            "2",
        ),
        (json!({"type": ["string", "integer"]}), "1.5", r#""1.5""#),
        (json!({"$ref": "#/$defs/a%3Cb%3E"}), "7", r#""7""#),
        (json!({"$ref": "#s"}), "true", r#""true""#),
        (json!({"$ref": "#/$defs/none"}), "7", "7"),
    ] {
        let call = format!("<function=f><parameter=q>\n{written}\n</parameter></function>");
        let arguments = argument("qwen3coder", &schema, &call);
        assert_eq!(
            arguments,
            format!("{{\"q\":{read}}}"),
            "{schema}: {written}"
        );
    }
}

#[test]
fn numbers_keep_their_digits() {
    const LONG: &str = "12345678901234567890123";
    let value = format!("{{\"a\": [{LONG}, 0.10, -1e+05]}}");
    for (schema, written) in [
        (json!({"type": "integer"}), LONG),
        (json!({"type": ["string", "integer"]}), LONG),
        (json!({"type": "number"}), "0.10"),
        (json!({"type": "object"}), &value),
    ] {
        let call = format!("<function=f><parameter=q>\n{written}\n</parameter></function>");
        let arguments = argument("qwen3coder", &schema, &call);
        assert_eq!(arguments, format!("{{\"q\":{written}}}"));
    }
    for (family, call) in [
        (
            "lfm2",
            format!("<|tool_call_start|>[f(x=[{LONG}, 1.50, 1_000])]<|tool_call_end|>"),
        ),
        (
            "gemma4",
            format!("<|tool_call>call:f{{x:[{LONG},1.50,1000]}}<tool_call|>"),
        ),
        (
            "dsml",
            format!(
                "<｜DSML｜tool_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"x\" string=\"false\">[{LONG},1.50,1000]</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>"
            ),
        ),
    ] {
        let arguments = format!("{{\"x\":[{LONG},1.50,1000]}}");
        assert_eq!(parse(family, &call), outcome("", [("f", &*arguments)]));
    }
}

#[test]
fn empty_texts_are_values_in_every_quote() {
    for (family, open, close) in [
        ("pythonic", "[", "]"),
        ("lfm2", "<|tool_call_start|>[", "]<|tool_call_end|>"),
        ("olmo3", "<function_calls>\n", "\n</function_calls>"),
    ] {
        for (written, read) in [
            ("text=''", r#"{"text":""}"#),
            ("text=\"\", count=1_000", r#"{"text":"","count":1000}"#),
            ("text='', count=1", r#"{"text":"","count":1}"#),
            (
                "text=\"\"\"\"\"\", more=['', {'': ''}]",
                r#"{"text":"","more":["",{"":""}]}"#,
            ),
            ("text='''a'b'''", r#"{"text":"a'b"}"#),
        ] {
            let call = format!("{open}f({written}){close}");
            assert_eq!(parse(family, &call), outcome("", [("f", read)]), "{call}");
        }
    }
}

#[test]
fn calls_that_nothing_marks_may_follow_each_other() {
    let two = "{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}\n";
    assert_eq!(parse("json", two), outcome("", [("f", "{}"), ("g", "{}")]));
    let two = two.replace("arguments", "parameters");
    assert_eq!(
        parse("llama3", &two),
        outcome("", [("f", "{}"), ("g", "{}")])
    );
    assert_eq!(
        parse("pythonic", "[f()]\n[g()]"),
        outcome("", [("f", "{}"), ("g", "{}")])
    );
    let rest = "Done: {\"name\": \"g\", \"arguments\": {}}";
    let text = format!("{{\"name\": \"f\", \"arguments\": {{}}}}\n{rest}");
    assert_eq!(parse("json", &text), outcome(rest, [("f", "{}")]));
}
