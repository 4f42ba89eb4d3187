//! What grammars of the families let through.

use std::sync::Arc;

use graphmill_engine::Files;
use graphmill_llm::backend::scripted::Script;
use graphmill_llm::{CompileError, CompiledConstraint, LlmEngine};
use serde_json::{Value, json};

use super::super::grammar;
use super::{CallFormat, FORMATS, mixed, parse};
use crate::llm::LanguageModel;
use crate::payload::ToolChoice;

fn engine() -> Arc<LlmEngine> {
    LanguageModel::scripted(Script::default(), None, &Files::default())
        .expect("a model")
        .engine()
}

fn compiled(
    engine: &LlmEngine,
    family: &str,
    template: &str,
    parameters: &Value,
) -> Result<CompiledConstraint, CompileError> {
    let named = FORMATS.named(family).expect("known");
    let format = CallFormat::from_family(named.expect("a format"), template);
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": parameters}});
    let choice = ToolChoice::Required;
    engine.compile(&grammar::calls(&format, &[tool], &choice, false))
}

fn accepts(constraint: &CompiledConstraint, text: &str) -> bool {
    let mut followed = constraint.text();
    followed.push(text);
    followed.can_end()
}

/// Calls with a unit and a number of days, which stand for `@` and `#`.
const CALLS: [(&str, &str); 24] = [
    (
        "hermes",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"unit\": \"@\", \"days\": #}}\n</tool_call>",
    ),
    (
        "llama3",
        "{\"name\": \"f\", \"parameters\": {\"unit\": \"@\", \"days\": #}}",
    ),
    (
        "mistral",
        "[TOOL_CALLS]f[ARGS]{\"unit\": \"@\", \"days\": #}",
    ),
    (
        "phi4",
        "functools[{\"name\": \"f\", \"arguments\": {\"unit\": \"@\", \"days\": #}}]",
    ),
    (
        "granite",
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"unit\": \"@\", \"days\": #}}]",
    ),
    (
        "qwen3coder",
        "<tool_call>\n<function=f>\n<parameter=unit>\n@\n</parameter>\n<parameter=days>\n#\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "seed_oss",
        "<seed:tool_call>\n<function=f>\n<parameter=unit>@</parameter>\n<parameter=days>#</parameter>\n</function>\n</seed:tool_call>",
    ),
    (
        "gptoss",
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"unit\": \"@\", \"days\": #}",
    ),
    (
        "onyx",
        "<atem:function_calls>\n<atem:invoke name=\"f\">\n<atem:parameter name=\"unit\">@</atem:parameter>\n<atem:parameter name=\"days\">#</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
    ),
    (
        "gemma4",
        "<|tool_call>call:f{unit:<|\"|>@<|\"|>,days:#}<tool_call|>",
    ),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"unit\": \"@\", \"days\": #}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "deepseek_v32",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"unit\" string=\"true\">@</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">#</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "glm47",
        "<tool_call>f<arg_key>unit</arg_key><arg_value>@</arg_value><arg_key>days</arg_key><arg_value>#</arg_value></tool_call>",
    ),
    (
        "minimax_m2",
        "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"unit\">@</parameter>\n<parameter name=\"days\">#</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "kimi_k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"unit\": \"@\", \"days\": #}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "lfm2",
        "<|tool_call_start|>[f(unit=\"@\", days=#)]<|tool_call_end|>",
    ),
    (
        "command_r",
        "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"unit\": \"@\", \"days\": #}}\n]<|END_ACTION|>",
    ),
    (
        "apertus",
        "<|tools_prefix|>[{\"f\": {\"unit\": \"@\", \"days\": #}}]<|tools_suffix|>",
    ),
    (
        "hunyuan",
        "<tool_calls>[{\"name\": \"f\", \"arguments\": {\"unit\": \"@\", \"days\": #}}]</tool_calls>",
    ),
    (
        "nemotron",
        "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"unit\": \"@\", \"days\": #}}]</TOOLCALL>",
    ),
    (
        "olmo3",
        "<function_calls>\nf(unit=\"@\", days=#)\n</function_calls>",
    ),
    (
        "minicpm5",
        "<function name=\"f\"><param name=\"unit\">@</param><param name=\"days\">#</param></function>",
    ),
    ("pythonic", "[f(unit=\"@\", days=#)]"),
    (
        "json",
        "{\"name\": \"f\", \"arguments\": {\"unit\": \"@\", \"days\": #}}",
    ),
];

#[test]
fn every_family_is_held_to_the_schema_and_reads_what_it_demands() {
    let engine = engine();
    let schema = json!({
        "type": "object",
        "properties": {"unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["unit", "days"],
    });
    for (family, text) in CALLS {
        let constraint = compiled(&engine, family, text, &schema).expect(family);
        let call = |unit: &str, days: &str| text.replace('@', unit).replace('#', days);
        let right = call("kelvin", "7");
        assert!(accepts(&constraint, &right), "{family}: {right}");
        for (unit, days) in [
            ("rankine", "7"),
            ("kelvin", "17"),
            ("kelvin", "\"7\""),
            ("", "7"),
        ] {
            let wrong = call(unit, days);
            assert!(!accepts(&constraint, &wrong), "{family}: {wrong}");
        }
        let (rest, calls) = parse(family, &right);
        let arguments: Value = serde_json::from_str(&calls[0].1).expect(family);
        assert_eq!((&*rest, &*calls[0].0), ("", "f"), "{family}");
        assert_eq!(arguments, json!({"unit": "kelvin", "days": 7}), "{family}");
    }
}

fn qwen(arguments: &[(&str, &str)]) -> String {
    let each = arguments.iter();
    let each = each.map(|(key, value)| format!("<parameter={key}>\n{value}\n</parameter>\n"));
    let all: String = each.collect();
    format!("<tool_call>\n<function=f>\n{all}</function>\n</tool_call>")
}

#[test]
fn schemas_of_arguments_one_by_one_are_taken_apart() {
    let engine = engine();
    let check = |schema: &Value, right: &[&[(&str, &str)]], wrong: &[&[(&str, &str)]]| {
        let constraint = compiled(&engine, "qwen3coder", "", schema).expect("compiles");
        for arguments in right {
            let text = qwen(arguments);
            assert!(accepts(&constraint, &text), "{schema}: {text}");
        }
        for arguments in wrong {
            let text = qwen(arguments);
            assert!(!accepts(&constraint, &text), "{schema}: {text}");
        }
    };
    check(
        &mixed(),
        &[
            &[("maybe", "any text"), ("list", "[\"a\"]")],
            &[
                ("maybe", "null"),
                ("count", "null"),
                ("list", "[]"),
                ("fixed", "7"),
            ],
            &[("list", "[\"</parameter>\"]")],
        ],
        &[
            &[("maybe", "any text")],
            &[("count", "x"), ("list", "[]")],
            &[("list", "[1]")],
            &[("list", "[]"), ("fixed", "8")],
            &[("list", "[]"), ("other", "8")],
        ],
    );
    let either = json!({"anyOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
    ]});
    check(
        &either,
        &[&[("a", "1")], &[("b", "true")]],
        &[&[], &[("a", "true")]],
    );
    let all = json!({"allOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": "boolean"}}},
    ]});
    check(
        &all,
        &[&[("a", "1")], &[("a", "1"), ("b", "true")]],
        &[&[("b", "true")]],
    );
    let open = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}});
    check(
        &open,
        &[&[("a", "1"), ("x", "true"), ("y", "false")], &[]],
        &[&[("x", "1")], &[("a", "true")]],
    );
    let texts = json!({"properties": {
        "code": {"type": "string", "pattern": "^[a-z]{2}/[0-9]$"},
        "sum": {"type": "string", "pattern": "^(?!^[-+.]*$)(?=..)[+-]?\\d*\\.?\\d*$"},
        "path": {"type": "string", "pattern": "^(a\\\\/|b\\/|c/)$"},
        "short": {"type": "string", "minLength": 2, "maxLength": 3},
        "part": {"type": "string", "pattern": "b+"},
        "ends": {"enum": ["</parameter>", "ok"]},
    }});
    check(
        &texts,
        &[
            &[
                ("code", "ab/1"),
                ("short", "abc"),
                ("part", "abbc"),
                ("ends", "ok"),
            ],
            &[("short", "ab")],
            &[("path", "a\\/")],
            &[("path", "b/")],
            &[("sum", "-.5")],
        ],
        &[
            &[("code", "ab/12")],
            &[("path", "a/")],
            &[("sum", "-.")],
            &[("sum", "5")],
            &[("short", "a")],
            &[("short", "abcd")],
            &[("part", "ac")],
            &[("ends", "</parameter>")],
        ],
    );
}

#[test]
fn formats_of_texts_are_held_however_calls_are_written() {
    let engine = engine();
    let cases = [
        ("date", "2024-02-29", "2023-02-29"),
        ("time", "23:59:59.5Z", "24:00:00Z"),
        ("time", "08:30:00+01:00", "08:30"),
        ("date-time", "2024-12-31T08:30:00.25Z", "2024-12-31 08:30"),
        ("duration", "P1Y2M3DT4H5M6S", "P1H"),
        ("duration", "PT30M", "P"),
        ("duration", "P2W", "2W"),
        ("email", "o'hara+a.b@mail.example", "a@b@c"),
        ("hostname", "a-1.example", "-a.example"),
        ("ipv4", "192.168.0.1", "192.168.0.256"),
        ("ipv6", "2001:db8::ff00:42:8329", "2001:db8::ff::1"),
        ("ipv6", "::", ":"),
        ("uuid", "0b4e6bd0-1c5e-4b5a-9a43-9a6ad3d4f1aa", "0b4e6bd0"),
        ("uri", "https://a.example:80/b/c?d=/e#f", "https://a b"),
        ("uri", "mailto:a@b.example", "a.example"),
        ("unknown", "anything", ""),
    ];
    for (format, right, wrong) in cases {
        let schema =
            json!({"properties": {"q": {"type": "string", "format": format}}, "required": ["q"]});
        for (family, before, after) in [
            (
                "hermes",
                "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"q\": \"",
                "\"}}\n</tool_call>",
            ),
            (
                "qwen3coder",
                "<tool_call>\n<function=f>\n<parameter=q>\n",
                "\n</parameter>\n</function>\n</tool_call>",
            ),
            (
                "glm47",
                "<tool_call>f<arg_key>q</arg_key><arg_value>",
                "</arg_value></tool_call>",
            ),
            (
                "gemma4",
                "<|tool_call>call:f{q:<|\"|>",
                "<|\"|>}<tool_call|>",
            ),
        ] {
            let constraint = compiled(&engine, family, before, &schema).expect("compiles");
            let call = |text: &str| format!("{before}{text}{after}");
            let is_read = |text: &str| accepts(&constraint, &call(text));
            assert!(is_read(right), "{family}, {format}: {right}");
            // In JSON, every February has 29 days.
            let is_wrong = !wrong.is_empty() && (family != "hermes" || format != "date");
            assert!(!is_wrong || !is_read(wrong), "{family}, {format}: {wrong}");
        }
    }
}

#[test]
fn references_lead_to_definitions_however_they_are_written() {
    let engine = engine();
    let schema = json!({
        "$id": "https://example.com/tool",
        "properties": {
            "a": {"$ref": "#/$defs/List%3Cu8%3E"},
            "b": {"$ref": "#unit"},
            "c": {"$ref": "https://example.com/tool#/$defs/x~1y"},
        },
        "required": ["a", "b", "c"],
        "$defs": {
            "List<u8>": {"type": "array", "items": {"$ref": "#/$defs/x~1y"}},
            "unit": {"$anchor": "unit", "enum": ["m", "km"]},
            "x/y": {"type": "integer", "maximum": 9},
        },
    });
    for (family, start, end) in [
        (
            "qwen3coder",
            "<tool_call>\n<function=f>\n",
            "</function>\n</tool_call>",
        ),
        (
            "seed_oss",
            "<seed:tool_call>\n<function=f>\n",
            "</function>\n</seed:tool_call>",
        ),
    ] {
        let constraint = compiled(&engine, family, "", &schema).expect("compiles");
        let gap = if family == "seed_oss" { "" } else { "\n" };
        let call = |values: [&str; 3]| {
            let each = ["a", "b", "c"].into_iter().zip(values);
            let each = each
                .map(|(name, value)| format!("<parameter={name}>{gap}{value}{gap}</parameter>\n"));
            format!("{start}{}{end}", each.collect::<String>())
        };
        assert!(accepts(&constraint, &call(["[1,2]", "km", "9"])));
        for wrong in [
            ["[1,10]", "km", "9"],
            ["[1]", "ft", "9"],
            ["[1]", "m", "10"],
        ] {
            assert!(!accepts(&constraint, &call(wrong)), "{family}: {wrong:?}");
        }
    }
}

#[test]
fn what_cannot_be_held_is_refused() {
    let engine = engine();
    for schema in [
        json!({"properties": {"a": {"type": "string", "not": {"const": "x"}}}}),
        json!({"properties": {"a": {"enum": ["x", "y"], "not": {"const": "x"}}}}),
        json!({"patternProperties": {"^a": {"type": "integer"}}}),
        json!({"properties": {"a": {}}, "not": {"required": ["a"]}}),
        json!({"$ref": "#/$defs/none"}),
        json!({"properties": {"a": {"enum": ["</parameter>"]}}, "required": ["a"]}),
        json!({"properties": {"a": {"type": "array", "contains": {"not": {}}}}, "required": ["a"]}),
    ] {
        assert!(
            compiled(&engine, "qwen3coder", "", &schema).is_err(),
            "{schema}"
        );
    }
}

#[test]
fn keywords_and_objects_of_gemma_may_be_left_out() {
    let engine = engine();
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "c": {"type": "object", "properties": {"d": {"anyOf": [{"type": "null"}, {"const": "x"}]}}},
        "e": {"type": ["number", "boolean"]},
        "g": {},
    }});
    let constraint = compiled(&engine, "gemma4", "", &schema).expect("compiles");
    let call = |arguments: &str| {
        format!(
            "<|tool_call>call:f{{{}}}<tool_call|>",
            arguments.replace('\'', "<|\"|>")
        )
    };
    for right in [
        "",
        "a:1",
        "b:['x']",
        "a:1,b:['x','y'],c:{d:null},e:1.5",
        "c:{},e:true",
        "c:{d:'x'}",
        "g:[{k:'v'},1]",
    ] {
        assert!(accepts(&constraint, &call(right)), "{right}");
    }
    for wrong in [
        ",a:1",
        "a:'1'",
        "b:[]",
        "b:['x','y','z']",
        "c:{d:'y'}",
        "e:null",
        "a:1,a:2",
        "h:1",
    ] {
        assert!(!accepts(&constraint, &call(wrong)), "{wrong}");
    }
    let constraint = compiled(&engine, "lfm2", "", &schema).expect("compiles");
    let call =
        |arguments: &str| format!("<|tool_call_start|>[f({arguments}), f()]<|tool_call_end|>");
    for right in ["", "a=1", "b=[\"x\"], e=true", "a=1, c={\"d\": null}"] {
        assert!(accepts(&constraint, &call(right)), "{right}");
    }
    for wrong in ["a=\"1\"", ", a=1", "b=[]", "h=1"] {
        assert!(!accepts(&constraint, &call(wrong)), "{wrong}");
    }
}

#[test]
fn lists_of_listed_elements_are_held_outside_of_json() {
    let engine = engine();
    let never = json!({"not": {}});
    let list = |schema: Value| json!({"type": "object", "properties": {"t": schema, "n": never}, "required": ["t"]});
    let flag = json!({"type": "boolean"});
    for (schema, right, wrong) in [
        (
            json!({"type": "array", "prefixItems": [flag, {"type": "null"}], "items": false}),
            vec!["[]", "[true]", "[false,null]"],
            vec!["[null]", "[true,null,1]"],
        ),
        (
            json!({"type": "array", "prefixItems": [flag], "items": {"type": "null"}, "minItems": 2}),
            vec!["[true,null]", "[true,null,null,null]"],
            vec!["[]", "[true]", "[true,true]"],
        ),
        (
            json!({"type": "array", "prefixItems": [flag], "items": flag, "maxItems": 2}),
            vec!["[]", "[true]", "[true,false]"],
            vec!["[true,false,true]"],
        ),
        (
            json!({"type": "array", "prefixItems": [flag, never], "items": flag}),
            vec!["[]", "[true]"],
            vec!["[true,true]"],
        ),
    ] {
        let constraint = compiled(&engine, "gemma4", "", &list(schema.clone())).expect("compiles");
        let call = |list: &str| format!("<|tool_call>call:f{{t:{list}}}<tool_call|>");
        for (texts, expected) in [(right, true), (wrong, false)] {
            for text in texts {
                assert_eq!(
                    accepts(&constraint, &call(text)),
                    expected,
                    "{schema}: {text}"
                );
            }
        }
    }
    for family in ["pythonic", "lfm2", "olmo3", "deepseek_v32", "qwen3coder"] {
        let plain = compiled(&engine, family, "", &list(flag.clone()));
        assert!(plain.is_ok(), "{family}: {plain:?}");
        let demanded = json!({"type": "object", "properties": {"n": never}, "required": ["n"]});
        assert!(
            compiled(&engine, family, "", &demanded).is_err(),
            "{family}"
        );
    }
}
