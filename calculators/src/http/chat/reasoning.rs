//! Reasoning: whether and how long a model reasons before it answers, and earlier reasoning in a
//! conversation.

use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::http::fields::{Fields, invalid, missing, shown, whole, written, wrong_type};

/// Names that clients of different servers know the budget under.
const BUDGETS: [&str; 5] = [
    "thinking_token_budget",
    "thinking_budget_tokens",
    "thinking_budget",
    "reasoning_budget_tokens",
    "reasoning_budget",
];

/// Reads the fields that templates take as `reasoning_effort` and `enable_thinking`; what
/// `chat_template_kwargs` says goes first.
pub(in crate::http) fn read(body: Fields<'_>, kwargs: &mut Map<String, Value>) -> Result<()> {
    let mut enabled = body.bool("enable_thinking")?;
    if let Some(effort) = body.str("reasoning_effort")? {
        kwargs.entry("reasoning_effort").or_insert(effort.into());
        enabled = enabled.or(Some(effort != "none"));
    }
    if let Some(thinking) = body.object("thinking")? {
        enabled = match thinking.get("type") {
            Some(Value::String(kind)) => match kind.as_str() {
                "enabled" => Some(true),
                "disabled" => Some(false),
                "adaptive" => enabled,
                other => {
                    let message = format!(
                        "must be `enabled`, `disabled` or `adaptive`, not `{}`",
                        shown(other)
                    );
                    return Err(invalid("thinking.type", message));
                }
            },
            Some(other) => return Err(wrong_type("thinking.type", "a string", other)),
            None => return Err(missing("thinking.type")),
        };
    }
    if let Some(enabled) = enabled {
        kwargs.entry("enable_thinking").or_insert(enabled.into());
    }
    Ok(())
}

/// Most tokens of reasoning; none where the request sets no bound.
pub(in crate::http) fn budget(body: Fields<'_>) -> Result<Option<u32>> {
    let mut budget = None;
    for name in BUDGETS {
        // -1 is without bound where 0 is without reasoning.
        let tokens = body.integer(name)?;
        budget = budget.or(tokens);
    }
    if let Some(tokens) = body
        .object("thinking")?
        .and_then(|thinking| thinking.get("budget_tokens"))
    {
        let tokens = match whole(tokens) {
            Some(tokens) if (0..=i64::from(u32::MAX)).contains(&tokens) => tokens,
            Some(_) => {
                return Err(invalid(
                    "thinking.budget_tokens",
                    format!("must be at least 0, not {}", written(tokens)),
                ));
            }
            None => return Err(wrong_type("thinking.budget_tokens", "an integer", tokens)),
        };
        budget = budget.or(Some(tokens));
    }
    Ok(budget.and_then(|tokens| u32::try_from(tokens).ok()))
}

/// Gives what an assistant thought the names that templates know it under: `reasoning_content`, and
/// `thinking` in harmony.
pub(in crate::http) fn of_message(message: &mut Map<String, Value>, path: &str) -> Result<()> {
    let mut reasoning = None;
    for name in ["reasoning_content", "reasoning"] {
        match message.get(name) {
            None | Some(Value::Null) => {
                message.remove(name);
            }
            Some(Value::String(text)) => reasoning = reasoning.or_else(|| Some(text.clone())),
            Some(other) => return Err(wrong_type(format!("{path}.{name}"), "a string", other)),
        }
    }
    if let Some(reasoning) = reasoning {
        message.remove("reasoning");
        for name in ["reasoning_content", "thinking"] {
            message.insert(name.to_owned(), reasoning.clone().into());
        }
    }
    Ok(())
}
