//! Tools of a chat: the offered ones, the choice among them, and past calls.

use std::{collections::HashSet, sync::Arc};

use graphmill_dialects::{bodies::tools::Tools, json::Allowance};
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::{
    arguments,
    fields::{conflicting, invalid, missing, shown},
};
use crate::payload::ToolChoice;

/// The tools of a request and the choice among them.
pub(super) struct ToolUse {
    /// Tools that are offered; `None` if the request forbids their use.
    pub(super) offered: Option<Vec<Value>>,
    pub(super) choice: ToolChoice,
    /// True if a message may have only one call.
    pub(super) one_call: bool,
    /// True if answers write calls as `function_call`.
    pub(super) function_call: bool,
}

/// Reads the fields about tools, or the older ones about functions.
pub(super) fn read(said: &mut Tools) -> Result<ToolUse> {
    let function_call = said.functions.is_some() || said.function_call.is_some();
    if said.functions.is_some() && said.tools.is_some() {
        return Err(conflicting("functions", "tools"));
    }
    if said.function_call.is_some() && said.tool_choice.is_some() {
        return Err(conflicting("function_call", "tool_choice"));
    }
    let path = |index| match said.functions {
        Some(_) => format!("functions[{index}].name"),
        None => format!("tools[{index}].function.name"),
    };
    let mut names = Names::default();
    let given = said.tools.iter().chain(&said.functions).flatten();
    for (index, tool) in given.enumerate() {
        let function = tool.get("function").unwrap_or(tool);
        let name = function["name"].as_str().unwrap_or_default();
        names.add(name, || path(index))?;
    }
    let mut tools = said.tools.take();
    let mut choice = said.tool_choice.take();
    if let Some(list) = choice.as_ref().and_then(allowed) {
        keep_allowed(tools.get_or_insert_default(), &list)?;
        choice = Some(list.mode);
    }
    let functions = said.functions.take().map(|functions| {
        let tool = |function: Value| json!({ "type": "function", "function": function });
        functions.into_iter().map(tool).collect()
    });
    let is_some = |tools: &Vec<Value>| !tools.is_empty();
    let tools = tools.filter(is_some).or(functions).filter(is_some);
    let list = tools.as_deref().unwrap_or_default();
    let choice = match (said.function_call.take(), choice) {
        (Some(choice), _) => choice_of("function_call", "functions", &choice, list)?,
        (None, Some(choice)) => choice_of("tool_choice", "tools", &choice, list)?,
        (None, None) => Some(ToolChoice::Auto),
    };
    // An answer in the form of functions has only one call.
    let parallel = said.parallel_tool_calls.unwrap_or(true);
    let parallel = parallel && !(function_call && tools.is_some());
    Ok(ToolUse {
        offered: tools.filter(|_| choice.is_some()),
        one_call: !parallel || matches!(choice, Some(ToolChoice::Named(_))),
        choice: choice.unwrap_or_default(),
        function_call,
    })
}

/// Reads a choice among tools; `None` if it forbids calls.
fn choice_of(
    field: &str,
    list: &str,
    choice: &Value,
    tools: &[Value],
) -> Result<Option<ToolChoice>> {
    let is_function_call = field == "function_call";
    let named = match choice {
        Value::String(choice) => match choice.as_str() {
            "none" => return Ok(None),
            "required" => None,
            _ => return Ok(Some(ToolChoice::Auto)),
        },
        _ if is_function_call => Some((format!("{field}.name"), &choice["name"])),
        _ => Some(name_of(choice, field)),
    };
    if tools.is_empty() && (named.is_none() || is_function_call) {
        let message = format!("needs `{list}` of the client; those of a provider are left out");
        return Err(invalid(field, message));
    }
    let Some((field, name)) = named else {
        return Ok(Some(ToolChoice::Required));
    };
    let Value::String(name) = name else {
        return Err(missing(field));
    };
    if !tools.iter().any(|tool| tool["function"]["name"] == **name) {
        let message = format!("is `{}`, which is not in `{list}`", shown(name));
        return Err(invalid(field, message));
    }
    Ok(Some(ToolChoice::Named(Arc::from(name.as_str()))))
}

/// Returns the name of a tool at `path` and its own path. In chats, it is in an object of its own.
fn name_of<'a>(tool: &'a Value, path: &str) -> (String, &'a Value) {
    match &tool["function"] {
        Value::Null => (format!("{path}.name"), &tool["name"]),
        function => (format!("{path}.function.name"), &function["name"]),
    }
}

/// The tools that a choice allows.
struct AllowList {
    /// Path of the field that lists them.
    path: &'static str,
    tools: Vec<Value>,
    /// Choice among the allowed tools.
    mode: Value,
}

/// Reads a choice that lists tools; `None` for other choices.
fn allowed(choice: &Value) -> Option<AllowList> {
    // In chats, the list is in an object of its own.
    let (path, list) = match &choice["allowed_tools"] {
        Value::Null => ("tool_choice.tools", choice),
        list => ("tool_choice.allowed_tools.tools", list),
    };
    (choice["type"] == "allowed_tools").then(|| AllowList {
        path,
        tools: list["tools"].as_array().cloned().unwrap_or_default(),
        mode: list["mode"].as_str().unwrap_or("auto").into(),
    })
}

/// Removes the tools that a list does not allow. Tools of a provider are not in it.
fn keep_allowed(tools: &mut Vec<Value>, list: &AllowList) -> Result<()> {
    let mut names = HashSet::new();
    for (index, tool) in list.tools.iter().enumerate() {
        if tool["type"] != "function" && tool["type"] != "custom" {
            continue;
        }
        let (path, name) = name_of(tool, &format!("{}[{index}]", list.path));
        let name = name.as_str().ok_or_else(|| missing(path.clone()))?;
        if !tools.iter().any(|tool| tool["function"]["name"] == *name) {
            let message = format!("is `{}`, which is not in `tools`", shown(name));
            return Err(invalid(path, message));
        }
        names.insert(name);
    }
    tools.retain(|tool| {
        let name = tool["function"]["name"].as_str();
        name.is_some_and(|name| names.contains(name))
    });
    Ok(())
}

/// The set of names of a request's tools.
#[derive(Debug, Default)]
pub(in crate::http) struct Names(HashSet<String>);

impl Names {
    /// Adds the name at `path` in the request, which must be new.
    pub(in crate::http) fn add(&mut self, name: &str, path: impl FnOnce() -> String) -> Result<()> {
        if self.0.insert(name.to_owned()) {
            return Ok(());
        }
        let message = format!("is `{}`, the name of another tool", shown(name));
        Err(invalid(path(), message))
    }
}

/// Converts a tool whose function is not an object of its own to the form that templates expect.
/// `parameters` is the name of its schema of arguments.
pub(in crate::http) fn function_of(mut tool: Map<String, Value>, parameters: &str) -> Value {
    let field = |name: &str| {
        let own = if name == "parameters" {
            parameters
        } else {
            name
        };
        let value = tool.remove(own).filter(|value| !value.is_null())?;
        Some((name.to_owned(), value))
    };
    let names = ["name", "description", "parameters", "strict"];
    let function: Map<String, Value> = names.into_iter().filter_map(field).collect();
    json!({ "type": "function", "function": function })
}

/// Converts the arguments of a past call from a string of JSON to the object that templates expect,
/// if they are valid.
pub(super) fn past_call(call: &mut Value, path: &str, allowance: &Allowance) {
    let function = &mut call["function"];
    function["arguments"] = match function["arguments"].take() {
        Value::String(text) => {
            arguments::parse(text, &format!("{path}.function.arguments"), allowance)
        }
        object @ Value::Object(_) => object,
        _ => Map::new().into(),
    };
}

/// Converts past calls to the form that templates know: an assistant's `function_call`, and the
/// message of the role `function` after it. `call` is the id of the last one.
pub(super) fn rewrite_message(
    message: &mut Map<String, Value>,
    index: usize,
    call: &mut Option<String>,
) -> Result<()> {
    if let Some(function @ Value::Object(_)) = message.remove("function_call") {
        if message.get("tool_calls").is_some_and(|it| !it.is_null()) {
            let field = format!("messages[{index}].function_call");
            return Err(conflicting(field, "tool_calls"));
        }
        let id = format!("call_{index}");
        let tool_call = json!({ "id": id, "type": "function", "function": function });
        message.insert("tool_calls".to_owned(), json!([tool_call]));
        *call = Some(id);
    }
    if message.get("role").is_some_and(|role| role == "function")
        && let Some(id) = call.as_deref()
    {
        message.insert("role".to_owned(), "tool".into());
        message.insert("tool_call_id".to_owned(), id.into());
    }
    Ok(())
}
