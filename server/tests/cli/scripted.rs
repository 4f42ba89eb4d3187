//! `graphmill test` with scripts in the place of language models.

use std::{fs, path::Path};

use crate::cli::support::{graphmill, path, text};

const TEMPLATE: &str = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[model] {% endif %}";

/// Options of the node, in the graph that serves chats by one node.
fn graph(options: &str) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../graphs/ovms_llm/graph.pbtxt"
    );
    let graph = fs::read_to_string(path).expect("the graph is there");
    let (before, after) = graph.split_once("cache_size: 2,").expect("an option");
    format!("{before}cache_size: 2 {options}{after}")
}

/// Tests the graph with these options: a script with `script`, and a case that asks `body` and
/// expects `expected`.
fn tested(
    folder: &Path,
    options: &str,
    script: &str,
    body: &str,
    expected: &str,
) -> (Option<i32>, String) {
    fs::write(folder.join("template.jinja"), TEMPLATE).expect("writable");
    fs::write(folder.join("graph.pbtxt"), graph(options)).expect("writable");
    let file = folder.join("graph.test.toml");
    let test = format!(
        "graph = \"graph.pbtxt\"\n{script}\n[[case]]\nname = \"case\"\n\
         input = [{{ stream = \"input\", value = {{ uri = \"/v3/chat/completions\", body = {{ model = \"m\", {body} }} }} }}]\n{expected}\n"
    );
    fs::write(&file, test).expect("writable");
    let output = graphmill(&["test", path(&file)]);
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    (output.status.code(), said)
}

const ASKED: &str = r#"messages = [{ role = "user", content = "Say it." }]"#;

#[test]
fn options_of_the_node_are_those_of_the_script() {
    let folder = tempfile::tempdir().expect("a folder");
    let call = "<tool_call>\\n<function=look>\\n<parameter=at>\\nhere\\n</parameter>\\n</function>\\n</tool_call>";
    let calls = format!("[models.llm]\nreplies = [{{ text = \"{call}\" }}]");
    let tools = format!(
        "{ASKED}, tools = [{{ type = \"function\", function = {{ name = \"look\", parameters = {{ type = \"object\", properties = {{ at = {{ type = \"string\" }} }} }} }} }}]"
    );
    let thinks = "[models.llm]\nreplies = [{ text = \"[THINK]Well.[/THINK]It.\" }]";
    let says = "[models.llm]\nreplies = [{ when = \"[user] Say it.\", text = \"It.\" }]";
    let said = r#"expect.output = { text = "It." }"#;
    for (options, script, body, expected) in [
        (
            "tool_parser: \"qwen3coder\"",
            &*calls,
            &*tools,
            r#"expect.output = [{ contains = { body = { choices = [{ finish_reason = "tool_calls", message = { tool_calls = [{ function = { name = "look", arguments = "{\"at\":\"here\"}" } }] } }] } } }]"#,
        ),
        (
            "tool_parser: \"none\"",
            &calls,
            &tools,
            r#"expect.output = [{ contains = { body = { choices = [{ finish_reason = "stop" }] } } }]"#,
        ),
        (
            "reasoning_parser: \"mistral\"",
            thinks,
            ASKED,
            r#"expect.output = [{ contains = { body = { choices = [{ message = { content = "It.", reasoning_content = "Well." } }] } } }]"#,
        ),
        ("chat_template_file: \"template.jinja\"", says, ASKED, said),
        ("max_context: 8", says, ASKED, "error = \"context\""),
        (
            "chat_template_file: \"none.jinja\"",
            says,
            ASKED,
            "error = \"none.jinja\"",
        ),
    ] {
        let (status, said) = tested(folder.path(), options, script, body, expected);
        assert_eq!(status, Some(0), "{options}\n{said}");
    }
}

#[test]
fn replies_follow_whatever_begins_an_answer_in_the_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let qwen = "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}<|im_end|>\\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\\n{% if enable_thinking is defined and not enable_thinking %}<think>\\n\\n</think>\\n\\n{% endif %}{% endif %}";
    let mistral = "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}{{ m.content }}</s>{% endif %}{% endfor %}";
    let thinks = "chat_template_kwargs = { enable_thinking = false }";
    let history = r#"messages = [{ role = "user", content = "Not yet." }, { role = "assistant", content = "I wait." }, { role = "user", content = "Say it." }]"#;
    for (template, reply, body, expected) in [
        (qwen, "It.", ASKED.to_owned(), "It."),
        (qwen, "It.", format!("{ASKED}, {thinks}"), "It."),
        // The reply has what the prompt lacks.
        (
            qwen,
            "<think>\\n\\n</think>\\n\\nIt.",
            ASKED.to_owned(),
            "It.",
        ),
        (mistral, "It.", ASKED.to_owned(), "It."),
        (mistral, "It.", history.to_owned(), "It."),
    ] {
        let script = format!(
            "[models.llm]\nchat_template = \"{}\"\nreplies = [{{ when = \"Say it.\", text = \"{reply}\" }}]",
            template.replace('"', "\\\"")
        );
        let expected = format!("expect.output = {{ text = \"{expected}\" }}");
        let (status, said) = tested(
            folder.path(),
            "reasoning_parser: \"think\"",
            &script,
            &body,
            &expected,
        );
        assert_eq!(status, Some(0), "{template}\n{body}\n{said}");
    }
}

#[test]
fn a_script_that_does_not_fit_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let template = "chat_template_file: \"template.jinja\"";
    let nothing = "[models.llm]\nreplies = [{ when = \"other\", text = \"It.\" }]";
    let flat =
        "[models.llm]\nchat_template = \"{% for m in messages %}{{ m.content }}{% endfor %}\"";
    for (options, script, expected) in [
        (template, nothing, "no reply of the script matches"),
        ("", flat, "does not show where an answer begins"),
    ] {
        let expected = format!("error = \"{expected}\"");
        let (status, said) = tested(folder.path(), options, script, ASKED, &expected);
        assert_eq!(status, Some(0), "{said}");
    }
    for (script, part) in [
        (
            "[models.llm]\n[models.lm]",
            "`models.lm`: no node of the graph uses a language model of this name; used: llm",
        ),
        ("[models.llm]\nreplys = []", "unknown field `replys`"),
    ] {
        let (status, said) = tested(folder.path(), "", script, ASKED, "");
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(part), "{part} in {said}");
    }
}
