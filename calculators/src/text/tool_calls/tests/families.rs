//! Answers as the families of models write them.

use serde_json::json;

use super::{format, outcome, parse, parser};

#[test]
fn gemma_writes_objects_of_its_own() {
    let text = "Ok.<|tool_call>call:f{text:<|\"|>a, {b}: \"c\"<|\"|>,count:7,more:{list:[1,<|\"|>x<|\"|>,null],flag:true,deep:{}}}<tool_call|><|tool_call>call:g{}<tool_call|>";
    let arguments = json!({
        "text": "a, {b}: \"c\"", "count": 7,
        "more": {"list": [1, "x", null], "flag": true, "deep": {}},
    });
    let both = [("f", &*arguments.to_string()), ("g", "{}")];
    assert_eq!(parse("gemma4", text), outcome("Ok.", both));
    let spaced = "<|tool_call>call:f{ text: <|\"|>a<|\"|> , count: -1.5 }";
    let arguments = "{\"text\":\"a\",\"count\":-1.5}";
    assert_eq!(parse("gemma4", spaced), outcome("", [("f", arguments)]));
    for text in [
        "<|tool_call>f",
        "<|tool_call>call:f{text:<|\"|>a",
        "<|tool_call>call:f{a:[1}",
    ] {
        assert_eq!(parse("gemma4", text), outcome(text, []), "{text}");
    }
}

#[test]
fn glm_writes_keys_and_values() {
    let lines = "Ok.\n<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>7</arg_value>\n<arg_key>count</arg_key>\n<arg_value>7</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>";
    let one = "Ok.<tool_call>f<arg_key>text</arg_key><arg_value>7</arg_value><arg_key>count</arg_key><arg_value>7</arg_value></tool_call><tool_call>g</tool_call>";
    let both = outcome("Ok.", [("f", "{\"text\":\"7\",\"count\":7}"), ("g", "{}")]);
    assert_eq!(parse("glm45", lines), both);
    assert_eq!(parse("glm47", one), both);
}

#[test]
fn kimi_numbers_its_calls() {
    let text = "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
    let both = outcome("Ok.", [("f", "{\"x\": 1}"), ("g", "{}")]);
    assert_eq!(parse("kimi_k2", text), both);
    let calls = parser(format("kimi_k2")).push(text, true).calls;
    let ids: Vec<_> = calls
        .iter()
        .flat_map(|call| &call.start)
        .map(|start| &*start.id)
        .collect();
    assert_eq!(ids, ["functions.f:0", "functions.g:1"]);
    let bare =
        "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|>";
    assert_eq!(parse("kimi_k2", bare), outcome("", [("f", "{\"x\": 1}")]));
}

#[test]
fn xml_families_differ_in_their_marks() {
    let arguments = json!({"text": "a <b>\n", "count": 7}).to_string();
    let both = outcome("Ok.", [("f", &*arguments), ("g", "{}")]);
    let minimax = "Ok.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"text\">a <b>\n</parameter>\n<parameter name=\"count\">7</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>";
    assert_eq!(parse("minimax_m2", minimax), both);
    let onyx = "Ok.\n<atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"text\">a <b>\n</atem:parameter>\n<atem:parameter name=\"count\">7</atem:parameter>\n</atem:invoke>\n<atem:invoke name=\"g\">\n</atem:invoke>\n</atem:function_calls>";
    assert_eq!(parse("onyx", onyx), both);
    let cpm = "Ok.\n<function name=\"f\"><param name=\"text\"><![CDATA[a <b>\n]]></param><param name=\"count\">7</param></function>\n<function name=\"g\"></function>";
    assert_eq!(parse("minicpm5", cpm), both);
    let ended = "<function name=\"f\"><param name=\"text\"><![CDATA[</param>]]></param></function>";
    assert_eq!(
        parse("minicpm5", ended),
        outcome("", [("f", "{\"text\":\"</param>\"}")])
    );
    for block in ["function_calls", "tool_calls"] {
        let dsml = format!(
            "Ok.\n\n<｜DSML｜{block}>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"text\" string=\"true\">a <b>\n</｜DSML｜parameter>\n<｜DSML｜parameter name=\"count\" string=\"false\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜{block}>"
        );
        assert_eq!(parse("deepseek_v32", &dsml), both);
    }
    // The text says what is text, whatever the tool says.
    let typed = "<｜DSML｜function_calls><｜DSML｜invoke name=\"g\"><｜DSML｜parameter name=\"a\" string=\"true\">7</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>";
    assert_eq!(
        parse("deepseek_v32", typed),
        outcome("", [("g", "{\"a\":\"7\"}")])
    );
}

#[test]
fn calls_in_an_array_differ_in_their_marks() {
    let call = "{\"name\": \"f\", \"arguments\": {\"x\": 1}}";
    let two = format!("{call}, {{\"name\": \"g\", \"arguments\": {{}}}}");
    let both = outcome("Ok.", [("f", "{\"x\": 1}"), ("g", "{}")]);
    for (family, open, close) in [
        ("hunyuan", "<tool_calls>[", "]</tool_calls>"),
        ("nemotron", "<TOOLCALL>[", "]</TOOLCALL>"),
        ("granite", "<|tool_call|>[", "]"),
        ("phi4", "<|tool_call|>[", "]<|/tool_call|>"),
        ("phi4", "functools[", "]"),
        ("lfm2", "<|tool_call_start|>[", "]<|tool_call_end|>"),
    ] {
        assert_eq!(
            parse(family, &format!("Ok. {open}{two}{close}")),
            both,
            "{family}"
        );
        let cut = format!("Ok. {open}{call}, ");
        assert_eq!(parse(family, &cut), outcome(&cut, []), "{family}");
    }
    let cohere = "Ok.<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"x\": 1}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": {}}\n]<|END_ACTION|>";
    assert_eq!(parse("command_r", cohere), both);
    let older = "Ok.\nAction: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\"x\": 1}\n    },\n    {\"tool_name\": \"g\", \"parameters\": {}}\n]```";
    assert_eq!(parse("command_r", older), both);
    let keyed = "Ok.<|tools_prefix|>[{\"f\": {\"x\": 1}}, {\"g\": {}}]<|tools_suffix|>";
    assert_eq!(parse("apertus", keyed), both);
}

#[test]
fn python_is_read_by_some() {
    let arguments = json!({
        "text": "it's \"a\", (b)\n", "count": 7, "list": [1, 2.5, "x"], "map": {"k": null},
        "yes": true, "no": false, "other": "é😀",
    });
    let call = "f(text=\"it's \\\"a\\\", (b)\\n\", count=7, list=[1, 2.5, 'x',], map={'k': None}, yes=True, no=false, other='\\u00e9😀')";
    let both = [("f", &*arguments.to_string()), ("g", "{}")];
    for (family, open, between, close) in [
        ("lfm2", "<|tool_call_start|>[", ", ", "]<|tool_call_end|>"),
        ("olmo3", "<function_calls>\n", "\n", "\n</function_calls>"),
        ("pythonic", "<|python_start|>[", ", ", "]<|python_end|>"),
    ] {
        let text = format!("Ok. {open}{call}{between}g(){close}");
        assert_eq!(parse(family, &text), outcome("Ok.", both), "{family}");
        let none = format!("Ok. {open}text</function_calls>");
        assert_eq!(parse(family, &none), outcome(&none, []), "{family}");
    }
    let bare = format!("[{call}, g()]");
    assert_eq!(parse("pythonic", &bare), outcome("", both));
    for text in ["[unknown(a=1)]", "[f(1)]", "[f(text=oops)]", "[1, 2]"] {
        assert_eq!(parse("pythonic", text), outcome(text, []), "{text}");
    }
}

#[test]
fn schemas_say_the_kind_of_a_value_in_many_ways() {
    let value = |key: &str, text: &str| {
        let text = format!(
            "<tool_call>\n<function=mixed>\n<parameter={key}>\n{text}\n</parameter>\n</function>\n</tool_call>"
        );
        let (_, calls) = parse("qwen3coder", &text);
        let arguments: serde_json::Value = serde_json::from_str(&calls[0].1).expect("JSON");
        arguments[key].clone()
    };
    for key in ["maybe", "either"] {
        assert_eq!(value(key, "5"), json!("5"), "{key}");
        assert_eq!(value(key, "null"), json!(null), "{key}");
        assert_eq!(value(key, "[1]"), json!("[1]"), "{key}");
    }
    for key in ["named", "both", "fixed"] {
        assert_eq!(value(key, "7"), json!("7"), "{key}");
        assert_eq!(value(key, "null"), json!("null"), "{key}");
    }
    assert_eq!(value("count", "7"), json!(7));
    assert_eq!(value("unknown", "7"), json!(7));
    // JSON may have the end mark within it.
    assert_eq!(value("list", "[\"</parameter>\"]"), json!(["</parameter>"]));
    assert_eq!(value("list", "[oops"), json!("[oops"));
    assert_eq!(value("unknown", "[a](b)"), json!("[a](b)"));
}

#[test]
fn an_argument_that_comes_again_is_dropped() {
    let text = "<tool_call>f<arg_key>text</arg_key><arg_value>a</arg_value><arg_key>text</arg_key><arg_value>b</arg_value></tool_call>";
    assert_eq!(
        parse("glm45", text),
        outcome("", [("f", "{\"text\":\"a\"}")])
    );
}

/// Calls of `f` with a `text` and a `count`, which stand for `@` and `#`.
const LOOSE: [(&str, &str); 3] = [
    ("pythonic", "[f(text=\"@\", count=#)]"),
    (
        "lfm2",
        "<|tool_call_start|>[f(text=\"@\", count=#)]<|tool_call_end|>",
    ),
    (
        "gemma4",
        "<|tool_call>call:f{text:<|\"|>@<|\"|>,count:#}<tool_call|>",
    ),
];
const XML: [(&str, &str, &str); 7] = [
    (
        "qwen3coder",
        "</parameter>",
        "<tool_call>\n<function=f>\n<parameter=text>\n@\n</parameter>\n<parameter=count>\n#\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "seed_oss",
        "</parameter>",
        "<seed:tool_call>\n<function=f>\n<parameter=text>@</parameter>\n<parameter=count>#</parameter>\n</function>\n</seed:tool_call>",
    ),
    (
        "glm45",
        "</arg_value>",
        "<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>@</arg_value>\n<arg_key>count</arg_key>\n<arg_value>#</arg_value>\n</tool_call>",
    ),
    (
        "minimax_m2",
        "</parameter>",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"text\">@</parameter>\n<parameter name=\"count\">#</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "onyx",
        "</atem:parameter>",
        "<atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"text\">@</atem:parameter>\n<atem:parameter name=\"count\">#</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
    ),
    (
        "deepseek_v32",
        "</｜DSML｜parameter>",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"text\" string=\"true\">@</｜DSML｜parameter>\n<｜DSML｜parameter name=\"count\" string=\"false\">#</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "minicpm5",
        "</param>",
        "<function name=\"f\"><param name=\"text\">@</param><param name=\"count\">#</param></function>",
    ),
];

#[test]
fn numbers_keep_their_digits_whatever_their_size() {
    let xml = XML.iter().map(|(family, _, text)| (*family, *text));
    for (family, text) in LOOSE.into_iter().chain(xml) {
        for number in [
            "1e999",
            "-4020.02120212820282028202e402",
            "123456789012345678901234567890",
            "[1e400,{\"a\":-1.10}]",
        ] {
            if family == "gemma4" && number.starts_with('[') {
                continue;
            }
            let text = text.replace('@', "a").replace('#', number);
            let arguments = format!("{{\"text\":\"a\",\"count\":{number}}}");
            assert_eq!(
                parse(family, &text),
                outcome("", [("f", &*arguments)]),
                "{family}"
            );
        }
    }
}

#[test]
fn a_text_can_have_the_end_mark_of_arguments_in_it() {
    for (family, mark, text) in XML {
        for value in [
            format!("a {mark} b"),
            format!("{mark}{mark}x"),
            format!("if x {{\n  print('{mark}')\n}} {mark}\n.\n"),
        ] {
            let call = text.replace('@', &value).replace('#', "7");
            let arguments = json!({"text": value, "count": 7}).to_string();
            let whole = parse(family, &call);
            assert_eq!(whole, outcome("", [("f", &*arguments)]), "{family}");
        }
    }
}

#[test]
fn deep_values_are_no_calls() {
    for (family, open, close) in [
        ("gemma4", "<|tool_call>call:f{a:", "}<tool_call|>"),
        ("lfm2", "<|tool_call_start|>[f(a=", ")]<|tool_call_end|>"),
    ] {
        let text = format!("{open}{}{}{close}", "[".repeat(5000), "]".repeat(5000));
        let whole = super::joined(parser(format(family)), [&*text]);
        assert_eq!(whole, outcome(&text, []), "{family}");
    }
}
