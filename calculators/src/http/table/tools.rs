//! Fields about tools and reasoning.

use super::super::fields::code::{MISSING, TYPE, VALUE};
use super::super::limits::MAX_TOOLS;
use super::{CHAT, Field, Form, MOST, field, refused};

const BUDGET: Form = Form::Integer(-1, MOST);

pub(super) const FIELDS: &[Field] = &[
    field("tools", &[CHAT], Form::Array(MAX_TOOLS), "The functions that the model may call, for the template and the tool parser.").refusing(&[
        refused(r#"{"tools": ["f"]}"#, "tools[0]", TYPE),
        refused(r#"{"tools": [{}]}"#, "tools[0].type", MISSING),
        refused(r#"{"tools": [{"type": 5}]}"#, "tools[0].type", TYPE),
        refused(r#"{"tools": [{"type": "web_search"}]}"#, "tools[0].type", VALUE),
        refused(r#"{"tools": [{"type": "function"}]}"#, "tools[0].function", MISSING),
        refused(r#"{"tools": [{"type": "function", "function": "f"}]}"#, "tools[0].function", TYPE),
        refused(r#"{"tools": [{"type": "function", "function": {}}]}"#, "tools[0].function.name", MISSING),
        refused(r#"{"tools": [{"type": "function", "function": {"name": 5}}]}"#, "tools[0].function.name", TYPE),
        refused(r#"{"tools": [{"type": "function", "function": {"name": ""}}]}"#, "tools[0].function.name", VALUE),
        refused(r#"{"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}"#, "tools[0].function.parameters", TYPE),
        refused(
            r#"{"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]}"#,
            "tools[0].function.parameters.type",
            VALUE,
        ),
    ]),
    field(
        "tool_choice",
        &[CHAT],
        Form::Own("`none`, `auto`, `required`, or an object that names a function"),
        "Whether the model calls a function, and which.",
    )
    .refusing(&[
        refused(r#"{"tool_choice": 5}"#, "tool_choice", TYPE),
        refused(r#"{"tool_choice": "sometimes"}"#, "tool_choice", VALUE),
        refused(r#"{"tool_choice": "required"}"#, "tool_choice", VALUE),
        refused(r#"{"tool_choice": {}}"#, "tool_choice.type", MISSING),
        refused(r#"{"tool_choice": {"type": "tool"}}"#, "tool_choice.type", VALUE),
        refused(r#"{"tool_choice": {"type": "function", "function": "f"}}"#, "tool_choice.function", TYPE),
        refused(
            r#"{"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "function", "function": {"name": "g"}}}"#,
            "tool_choice.function.name",
            VALUE,
        ),
    ]),
    field("parallel_tool_calls", &[CHAT], Form::Boolean, "Whether one answer may have several calls."),
    field("functions", &[CHAT], Form::Array(MAX_TOOLS), "The form that `tools` had before: functions without the object around them. The answer has a `function_call`, and at most one.").refusing(&[
        refused(r#"{"functions": ["f"]}"#, "functions[0]", TYPE),
        refused(r#"{"functions": [{}]}"#, "functions[0].name", MISSING),
        refused(r#"{"functions": [{"name": 5}]}"#, "functions[0].name", TYPE),
        refused(r#"{"functions": [{"name": "f", "parameters": []}]}"#, "functions[0].parameters", TYPE),
        refused(r#"{"functions": [{"name": ""}]}"#, "functions[0].name", VALUE),
        refused(r#"{"functions": [{"name": "f", "parameters": {"type": "array"}}]}"#, "functions[0].parameters.type", VALUE),
        refused(r#"{"functions": [{"name": "f"}], "tools": []}"#, "functions", VALUE),
    ]),
    field("function_call", &[CHAT], Form::Own("`none`, `auto`, or an object that names a function"), "The form that `tool_choice` had before.").refusing(&[
        refused(r#"{"function_call": 5}"#, "function_call", TYPE),
        refused(r#"{"function_call": "required"}"#, "function_call", VALUE),
        refused(r#"{"function_call": {}}"#, "function_call.name", MISSING),
        refused(r#"{"function_call": {"name": "f"}}"#, "function_call", VALUE),
        refused(r#"{"functions": [{"name": "f"}], "function_call": {"name": "g"}}"#, "function_call.name", VALUE),
    ]),
    field(
        "reasoning_effort",
        &[CHAT],
        Form::OneOf(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
        "The template's variable of this name; `none` also sets its `enable_thinking` to false, and the others to true.",
    ),
    field("enable_thinking", &[CHAT], Form::Boolean, "The template's variable of this name."),
    field(
        "thinking",
        &[CHAT],
        Form::Object,
        "`type` is `enabled`, `disabled` or `adaptive`; `budget_tokens` is the same as `thinking_token_budget`.",
    )
    .refusing(&[
        refused(r#"{"thinking": {}}"#, "thinking.type", MISSING),
        refused(r#"{"thinking": {"type": true}}"#, "thinking.type", TYPE),
        refused(r#"{"thinking": {"type": "deep"}}"#, "thinking.type", VALUE),
        refused(r#"{"thinking": {"type": "enabled", "budget_tokens": -1}}"#, "thinking.budget_tokens", VALUE),
        refused(r#"{"thinking": {"type": "enabled", "budget_tokens": "all"}}"#, "thinking.budget_tokens", TYPE),
    ]),
    field("thinking_token_budget", &[CHAT], BUDGET, "Most tokens of reasoning; -1 is without bound."),
    field("thinking_budget_tokens", &[CHAT], BUDGET, "The same."),
    field("thinking_budget", &[CHAT], BUDGET, "The same."),
    field("reasoning_budget_tokens", &[CHAT], BUDGET, "The same."),
    field("reasoning_budget", &[CHAT], BUDGET, "The same."),
];
