//! Templates of no known family.

use std::sync::Arc;

use super::{CallFormat, outcome, parse_as};
use crate::text::chat_template::ChatTemplate;

/// The format of a template that writes each call of a message like this.
fn learned(calls: &str) -> Arc<CallFormat> {
    let template = format!(
        "{{%- for message in messages -%}}\n<|turn|>{{{{ message.role }}}}\n{{{{ message.content }}}}{calls}<|done|>\n{{%- endfor -%}}"
    );
    let template = ChatTemplate::new(&template).expect("a template");
    CallFormat::taught_by(Some(&template)).expect("a format")
}

#[test]
fn calls_as_json_are_known_by_their_marks() {
    let each = "{% for call in message.tool_calls %}<call>{{ call.function | tojson }}</call>\n{% endfor %}";
    let format = learned(each);
    let text = "Ok. <call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</call>\n<call>{\"name\": \"g\", \"arguments\": {}}</call>";
    let both = outcome("Ok.", [("f", "{\"x\": 1}"), ("g", "{}")]);
    assert_eq!(parse_as(&format, text), both);

    // The whole of what clients send.
    let whole =
        "{% for call in message.tool_calls %}<call>{{ call | tojson }}</call>\n{% endfor %}";
    let outer = "Ok. <call>{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1}}}</call>\n<call>{\"name\": \"g\", \"arguments\": {}}</call>";
    assert_eq!(parse_as(&learned(whole), outer), both);

    let list = "{% if message.tool_calls %}<|calls|>[{% for call in message.tool_calls %}{\"name\": \"{{ call.function.name }}\", \"parameters\": {{ call.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}{% endfor %}]<|/calls|>{% endif %}";
    let text = "Ok. <|calls|>[{\"name\": \"f\", \"parameters\": {\"x\": 1}}, {\"name\": \"g\", \"parameters\": {}}]<|/calls|>";
    assert_eq!(parse_as(&learned(list), text), both);
}

#[test]
fn names_may_stand_before_the_arguments() {
    let each = "{% for call in message.tool_calls %}<|call|>{{ call.function.name }}<|with|>{{ call.function.arguments if call.function.arguments is string else raise_exception('text') }}<|end|>{% endfor %}";
    let text = "Ok. <|call|>f<|with|>{\"x\": 1}<|end|><|call|>g<|with|>{}<|end|>";
    let both = outcome("Ok.", [("f", "{\"x\": 1}"), ("g", "{}")]);
    assert_eq!(parse_as(&learned(each), text), both);
}

#[test]
fn arguments_may_stand_one_by_one() {
    let each = "{% if message.tool_calls %}<acts>\n{% for call in message.tool_calls %}<act name=\"{{ call.function.name }}\">\n{% for key, value in call.function.arguments.items() %}<arg name=\"{{ key }}\">{{ value }}</arg>\n{% endfor %}</act>\n{% endfor %}</acts>{% endif %}";
    let text = "Ok.\n<acts>\n<act name=\"f\">\n<arg name=\"text\">7</arg>\n<arg name=\"count\">7</arg>\n</act>\n<act name=\"g\">\n</act>\n</acts>";
    let both = outcome("Ok.", [("f", "{\"text\":\"7\",\"count\":7}"), ("g", "{}")]);
    assert_eq!(parse_as(&learned(each), text), both);
}

#[test]
fn a_template_of_one_call_or_none_is_no_worse() {
    let one = "{% if message.tool_calls %}{% if message.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}<|do|>{{ message.tool_calls[0].function | tojson }}{% endif %}";
    let text = "<|do|>{\"name\": \"f\", \"arguments\": {\"x\": 1}}";
    assert_eq!(
        parse_as(&learned(one), text),
        outcome("", [("f", "{\"x\": 1}")])
    );
    let bare = "{% for call in message.tool_calls %}{{ call.function | tojson }}{% endfor %}";
    // An id that the model would have to know.
    let with_id = "{% for call in message.tool_calls %}<call>{{ call.id }}:{{ call.function | tojson }}</call>{% endfor %}";
    for format in [learned(""), learned(bare), learned(with_id)] {
        let text = "{\"name\": \"f\", \"arguments\": {\"x\": 1}}";
        assert_eq!(parse_as(&format, text), outcome("", [("f", "{\"x\": 1}")]));
        assert_eq!(parse_as(&format, "{\"x\": 1}"), outcome("{\"x\": 1}", []));
    }
}
