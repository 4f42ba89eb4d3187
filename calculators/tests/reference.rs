//! `docs/reference/calculators.md` and the pages of its groups are made from what the calculators
//! say of themselves: their documentation, contracts and options. This test compares;
//! `UPDATE=1 cargo test --release --workspace --test registry` writes the pages anew.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use graphmill_engine::{
    Registry,
    registry::{Description, PortDescription},
};
use serde_json::Value;

use crate::sources::{folder_of, rust_files};

const MADE: &str =
    "Made from the sources: `UPDATE=1 cargo test --release --workspace --test registry`.";

#[test]
fn the_reference_of_calculators_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../docs/reference");
    let update = std::env::var_os("UPDATE").is_some();
    for (name, made) in pages() {
        let path = folder.join(name);
        if update {
            std::fs::write(&path, &made).expect("the page can be written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == made,
            "{} is not current: run `UPDATE=1 cargo test --release --workspace --test registry`",
            path.display()
        );
    }
}

/// The page of contents, and a page for each group.
fn pages() -> Vec<(PathBuf, String)> {
    let registry = Registry::global();
    let mut left: Vec<Description> = registry.describe();
    let mut contents = format!(
        "# Calculators\n\nWhat a graph can name in `calculator`, as `graphmill calculators` lists it. {MADE}\n\n\
         MediaPipe's signed whole numbers are all `int` here (`i64` in Rust), its unsigned ones `uint` (`u64`), and \
         `float` is its `double` (`f64`).\n",
    );
    let mut pages = Vec::new();
    for (module, heading) in graphmill_calculators::GROUPS {
        let group = module.rsplit("::").next().unwrap_or(module);
        let name = format!("calculators/{}.md", group.trim_start_matches("graphmill_"));
        let mut page = format!("# {heading}\n\n[All calculators](../calculators.md). {MADE}\n");
        _ = write!(
            contents,
            "\n## [{heading}]({name})\n\n| calculator | |\n|---|---|\n"
        );
        for file in rust_files(&folder_of(module)) {
            let source = std::fs::read_to_string(&file).expect("a source file");
            let (defined, rest) = left
                .into_iter()
                .partition(|node| defines(&source, node.name));
            left = rest;
            section(&mut page, &source, &defined);
            contents_row(&mut contents, &name, &source, &defined);
        }
        pages.push((name.into(), page));
    }
    assert!(
        left.is_empty(),
        "not found in the sources: {:?}",
        left.iter().map(|node| node.name).collect::<Vec<_>>()
    );
    contents.push_str("\n## Subgraphs\n");
    for subgraph in registry.subgraphs() {
        _ = write!(contents, "\n### {}\n\n{}\n", subgraph.name, subgraph.doc);
    }
    pages.push(("calculators.md".into(), contents));
    pages
}

/// A row of the contents: the calculators of one file and the first sentence of their documentation.
fn contents_row(contents: &mut String, page: &str, source: &str, nodes: &[Description]) {
    let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
    if names.is_empty() {
        return;
    }
    let anchor = names.join("-").to_lowercase();
    let (text, _) = documentation(source);
    let paragraph = text
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .replace('\n', " ");
    let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default();
    _ = writeln!(
        contents,
        "| [{}]({page}#{anchor}) | {} |",
        names.join(", "),
        sentence.trim_end().replace('|', "\\|")
    );
}

/// Whether a file gives a calculator its name.
fn defines(source: &str, name: &str) -> bool {
    let alone = format!("const NAME: &'static str = \"{name}\"");
    let of_many = format!(" as \"{name}\")");
    let mut code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| line.contains(&alone) || line.contains(&of_many))
}

/// What the page says of the calculators of one file.
fn section(page: &mut String, source: &str, nodes: &[Description]) {
    let Some(first) = nodes.first() else {
        return;
    };
    let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
    _ = write!(page, "\n## {}\n", names.join(", "));
    let (text, example) = documentation(source);
    _ = write!(page, "\n{text}\n");
    let ports = |node: &Description| serde_json::to_value(&node.ports).expect("JSON");
    if nodes.len() > 1 && nodes.iter().all(|node| ports(node) == ports(first)) {
        page.push_str("\nThe names mean the same.\n");
    } else if nodes.len() > 1 {
        _ = write!(
            page,
            "\nThe ports are those of `{}`; the others differ in their types.\n",
            first.name
        );
    }
    page.push_str("\n| port | type | |\n|---|---|---|\n");
    for port in &first.ports {
        _ = writeln!(page, "{}", port_row(port));
    }
    if let Some(policy) = &first.policy {
        let bounds = if first.bounds {
            "; called for timestamps without packets too"
        } else {
            ""
        };
        _ = write!(page, "\nInput policy: {policy}{bounds}.\n");
    }
    options(page, first);
    _ = write!(page, "\n```\n{example}```\n");
}

fn port_row(port: &PortDescription) -> String {
    let kind = match port.kind {
        "input_stream" => "input",
        "output_stream" => "output",
        "input_side_packet" => "input side packet",
        _ => "output side packet",
    };
    let tag = if port.tag.is_empty() {
        String::new()
    } else {
        format!(" `{}`", port.tag)
    };
    let often = match (port.optional, port.repeated) {
        (false, false) => "",
        (true, false) => "optional",
        (false, true) => "one or more",
        (true, true) => "any number",
    };
    format!(
        "| {kind}{tag} | `{}` | {often} |",
        port.ty.replace('|', "\\|")
    )
}

fn options(page: &mut String, node: &Description) {
    let schema = node.options.as_value();
    let Some(fields) = schema["properties"]
        .as_object()
        .filter(|fields| !fields.is_empty())
    else {
        return;
    };
    let message = node.option_names.first().map_or("", String::as_str);
    _ = write!(page, "\nOptions, in `{message}`:\n\n");
    fields_table(page, "option", schema);
    for (name, field) in fields {
        let content = &field["contentSchema"];
        if content.is_object() {
            _ = write!(page, "\nWhat the JSON text of `{name}` can have:\n\n");
            fields_table(page, "name", content);
        }
    }
}

/// A row for each property of a schema.
fn fields_table(page: &mut String, title: &str, schema: &Value) {
    _ = write!(page, "| {title} | type | default | |\n|---|---|---|---|\n");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let default = match &field["default"] {
            Value::Null => String::new(),
            value => format!("`{value}`"),
        };
        let what = field["description"].as_str().unwrap_or_default();
        let ty = type_name(field, schema) + &range(field);
        _ = writeln!(
            page,
            "| `{name}` | {ty} | {default} | {} |",
            what.replace('\n', " ")
        );
    }
}

/// The range of a number, or of the numbers in a list, where there is more to say than its type.
fn range(field: &Value) -> String {
    let field = field.get("items").unwrap_or(field);
    match (&field["minimum"], &field["maximum"]) {
        (Value::Null, Value::Null) => String::new(),
        (least, Value::Null) if least.as_f64() == Some(0.0) => String::new(),
        (least, Value::Null) => format!(", at least {least}"),
        (Value::Null, most) => format!(", at most {most}"),
        (least, most) => format!(", {least} to {most}"),
    }
}

/// The type of an option, as a graph's author would say it.
fn type_name(field: &Value, schema: &Value) -> String {
    if let Some(path) = field["$ref"].as_str() {
        let name = path.trim_start_matches("#/$defs/");
        return type_name(&schema["$defs"][name], schema);
    }
    let of = |list: &str| field[list].as_array().cloned().unwrap_or_default();
    let words: Vec<String> = of("enum")
        .iter()
        .chain(of("oneOf").iter().map(|word| &word["const"]))
        .filter_map(Value::as_str)
        .map(|word| format!("`{word}`"))
        .collect();
    if !words.is_empty() {
        return words.join(", ");
    }
    let given: Vec<Value> = of("anyOf")
        .into_iter()
        .filter(|one| one["type"] != "null")
        .collect();
    if let [one] = &given[..] {
        return type_name(one, schema);
    }
    let kind = match &field["type"] {
        Value::Array(kinds) => kinds.first().cloned().unwrap_or_default(),
        kind => kind.clone(),
    };
    match kind.as_str() {
        Some("array") => format!("repeated {}", type_name(&field["items"], schema)),
        Some("object") | None => "message".to_owned(),
        Some(kind) => kind.to_owned(),
    }
}

/// The first documentation comment with an example graph: its text, and the example.
fn documentation(source: &str) -> (String, String) {
    let (mut text, mut example, mut inside) = (String::new(), String::new(), false);
    for line in source.lines() {
        let Some(line) = line.strip_prefix("///") else {
            text.clear();
            continue;
        };
        let line = line.strip_prefix(' ').unwrap_or(line);
        match (inside, line) {
            (false, "```pbtxt") => inside = true,
            (true, "```") => return (plain(text.trim_end()), example),
            (true, line) => example = example + line + "\n",
            (false, line) => text = text + line + "\n",
        }
    }
    (plain(text.trim_end()), example)
}

/// Documentation without what only rustdoc understands: links to items.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}
