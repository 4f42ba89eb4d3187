//! Constraints that would take without end to compile are refused at once, and those that people
//! have are not.

use crate::constraint::replying;
use graphmill_llm::{CompileError, Constraint};
use serde_json::{Value, json};

/// The refusal of a constraint for what it is, not for the time that it took.
fn refusal(constraint: &Constraint) -> String {
    let error = replying("a").compile(constraint).expect_err("is refused");
    assert!(matches!(error, CompileError::Constraint(_)), "{error}");
    error.to_string()
}

fn patterns(count: usize) -> Vec<Value> {
    let pattern =
        |number| json!({"type": "string", "pattern": format!("(a|b){{0,50}}.*{number}7.*")});
    (0..count).map(pattern).collect()
}

#[test]
fn patterns_that_hold_together_are_bounded_wherever_they_come_from() {
    let named: Vec<Value> = patterns(60)
        .into_iter()
        .map(|pattern| json!({"type": "object", "properties": {"a": pattern}}))
        .collect();
    let mut definitions = json!({"d60": {"type": "string"}});
    for (number, pattern) in patterns(60).into_iter().enumerate() {
        let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
        definitions[format!("d{number}")] = json!({"allOf": [pattern, next]});
    }
    let alternatives = |letter: char| -> Value {
        let each: Vec<_> = (0..900)
            .map(|number| format!(".*{letter}{number}"))
            .collect();
        json!({"type": "string", "pattern": each.join("|")})
    };
    for schema in [
        json!({"allOf": patterns(60)}),
        json!({"allOf": named}),
        json!({"$ref": "#/$defs/d0", "$defs": definitions}),
        json!({"allOf": [alternatives('a'), alternatives('b')]}),
    ] {
        let lark = Constraint::Lark(format!("start: %json {schema}"));
        for constraint in [Constraint::JsonSchema(schema), lark] {
            let refusal = refusal(&constraint);
            assert!(refusal.contains("patterns"), "{refusal}");
        }
    }
    let each: Vec<_> = (0..60)
        .map(|number| format!("/(a|b){{0,50}}.*{number}7.*/"))
        .collect();
    let refusal = refusal(&Constraint::Lark(format!(
        "start: A\nA: {}",
        each.join(" & ")
    )));
    assert!(refusal.contains('&'), "{refusal}");
}

#[test]
fn patterns_of_names_are_bounded_per_object_and_in_all() {
    let object = |count: usize, of: usize| -> Value {
        let name = |number| (format!("^x{of}n{number}[a-z]{{1,200}}$"), json!({}));
        json!({"type": "object", "patternProperties": Value::Object((0..count).map(name).collect())})
    };
    let many: Vec<Value> = (0..150).map(|of| object(60, of)).collect();
    let parts: Vec<Value> = (0..128).map(|of| object(8, of)).collect();
    for schema in [
        object(3_000, 0),
        json!({"type": "array", "prefixItems": many}),
        json!({"allOf": parts}),
    ] {
        let refusal = refusal(&Constraint::JsonSchema(schema));
        assert!(refusal.contains("patternProperties"), "{refusal}");
    }
    let few = Constraint::JsonSchema(object(100, 0));
    replying("{}").compile(&few).expect("can be compiled");
}

#[test]
fn texts_that_are_given_as_they_are_are_bounded() {
    let long = "x".repeat(900_000);
    for constraint in [
        Constraint::Choice(vec![long.clone()]),
        Constraint::JsonSchema(json!({"enum": [[long]]})),
        Constraint::JsonSchema(json!({"properties": {long.as_str(): {}}})),
        Constraint::JsonSchema(json!({"patternProperties": {long.as_str(): {}}})),
        Constraint::JsonSchema(json!({"pattern": long})),
    ] {
        let refusal = refusal(&constraint);
        assert!(refusal.contains("bytes"), "{refusal}");
    }
}

/// The parameters of a tool as programs have them.
fn tool(number: usize, properties: usize) -> Value {
    let kinds = [
        json!({"type": "string", "description": "x".repeat(200)}),
        json!({"type": "integer", "minimum": 0, "maximum": 100}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "email", "maxLength": 200}),
        json!({"type": "string", "format": "uuid"}),
        json!({"type": "string", "pattern": r"^[A-Z]{2}-\d{3,8}$"}),
        json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
        json!({"type": "array", "items": {"enum": ["a", "b", "c"]}}),
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}}),
        json!({"allOf": [{"$ref": "#/$defs/base"}]}),
    ];
    let property = |at: usize| (format!("p{number}_{at}"), kinds[at % kinds.len()].clone());
    let required: Vec<_> = (250..properties)
        .map(|at| format!("p{number}_{at}"))
        .collect();
    let properties: Value = Value::Object((0..properties).map(property).collect());
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": {"base": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"}},
    })
}

/// Calls of tools, of which a model says the name first.
fn calls(tools: usize, properties: usize) -> Constraint {
    let call = |number| {
        let name = Constraint::Text(format!("tool{number} "));
        Constraint::Sequence(vec![name, Constraint::JsonSchema(tool(number, properties))])
    };
    Constraint::AnyOf((0..tools).map(call).collect())
}

#[test]
fn tools_and_large_schemas_as_people_have_them_pass() {
    let engine = replying("{}");
    for constraint in [calls(64, 30), Constraint::JsonSchema(tool(0, 900))] {
        engine.compile(&constraint).expect("can be compiled");
    }
}

#[test]
fn as_many_properties_as_may_be_left_out_can_come_and_more_are_refused() {
    let object = |count| {
        let property = |at| (format!("p{at}"), json!({"type": "boolean"}));
        let properties: Value = Value::Object((0..count).map(property).collect());
        Constraint::JsonSchema(json!({"type": "object", "properties": properties}))
    };
    let compiled = replying("{}").compile(&object(290)).expect("is taken");
    let values: Vec<_> = (0..290).map(|at| format!("\"p{at}\": true")).collect();
    let mut text = compiled.text();
    text.push(&format!("{{{}}}", values.join(", ")));
    assert!(text.can_end());
    let refusal = refusal(&object(291));
    assert!(refusal.contains("291 optional properties"), "{refusal}");
}

#[test]
fn what_is_too_large_is_said_in_words() {
    let plain = |number| {
        let property = |at| (format!("p{at}"), json!({"type": "string"}));
        let properties: Value = Value::Object((0..20).map(property).collect());
        let schema = json!({"type": "object", "properties": properties});
        let name = Constraint::Text(format!("tool{number} "));
        Constraint::Sequence(vec![name, Constraint::JsonSchema(schema)])
    };
    for constraint in [
        Constraint::AnyOf((0..1024).map(plain).collect()),
        calls(800, 10),
    ] {
        let refusal = refusal(&constraint);
        assert!(refusal.contains("too large as a whole"), "{refusal}");
    }
}

/// What has a regular expression in it, by each way there is for one but schemas.
fn ways(expression: &str) -> Vec<Constraint> {
    vec![
        Constraint::Regex(expression.to_owned()),
        Constraint::Lark(format!("start: X\nX: /{expression}/")),
        Constraint::Lark(format!("start: \"<\" x\nx: /{expression}/ \">\"")),
        Constraint::Lark(format!("start: %lark {{\nstart: /{expression}/\n}}")),
        Constraint::Repeated {
            each: Box::new(Constraint::Regex(expression.to_owned())),
            separator: Box::new(Constraint::Text(",".to_owned())),
        },
    ]
}

/// Schemas with a pattern.
fn patterned(expression: &str) -> Vec<Constraint> {
    let schema = json!({"type": "string", "pattern": format!("^{expression}$")});
    let lark = Constraint::Lark(format!("start: %json {schema}"));
    let within = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
    vec![
        Constraint::JsonSchema(schema),
        Constraint::JsonSchema(within),
        lark,
    ]
}

#[test]
fn parts_that_may_be_left_out_are_bounded_wherever_they_come_from() {
    let gbnf = format!("root ::= {}", "[a-zA-Zα-ω]? ".repeat(3_000));
    let terminals: Vec<_> = (1..13)
        .map(|number| format!("A{number}: A{0} A{0}\n", number - 1))
        .collect();
    let terminals = format!("start: A12\nA0: /\\w?/\n{}", terminals.concat());
    let long = format!("start: X\nX: /{}/", "\\w?".repeat(20_000));
    let mut all = vec![
        Constraint::Gbnf(gbnf),
        Constraint::Lark(terminals),
        Constraint::Lark(long),
    ];
    for unit in ["\\w?", "(?:a|bc|\\w)?", "(?:\\w|)", "\\p{L}*\\d*"] {
        all.extend(ways(&unit.repeat(1_000)));
    }
    all.extend(patterned(&"\\w?".repeat(5_000)));
    for constraint in all {
        let refusal = refusal(&constraint);
        let is_bound = refusal.contains("optional") || refusal.contains("as a whole");
        assert!(is_bound, "{refusal}");
    }
}

#[test]
fn parts_that_people_leave_out_pass() {
    let engine = replying("a");
    let unit = "[a-z]?";
    let expressions = [
        unit.repeat(1_000),
        "\\w?".repeat(100),
        "\\w{0,5000}".to_owned(),
        "(\\w{0,20}[ ,.]?){0,200}".to_owned(),
    ];
    let each = expressions.iter();
    let each = each.flat_map(|it| [ways(it), patterned(it)].concat());
    let choices: Vec<_> = (0..5_000)
        .map(|number| format!("choice {number}"))
        .collect();
    let listed = Constraint::JsonSchema(json!({ "enum": choices }));
    for constraint in each.chain([listed, Constraint::Choice(choices)]) {
        let compiled = engine.compile(&constraint);
        assert!(compiled.is_ok(), "{constraint:?}: {compiled:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn expressions_take_little_memory_whether_they_are_refused_or_not() {
    let tests = std::env::current_exe().expect("a program");
    let limited = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\""])
        .arg(tests)
        .args(["constraint_bounds::parts_that", "--test-threads=1"])
        .env("MALLOC_ARENA_MAX", "2")
        .output();
    let limited = limited.expect("it runs");
    let told = String::from_utf8_lossy(&limited.stdout);
    assert!(limited.status.success(), "{told}");
    assert!(told.contains("2 passed"), "{told}");
}

#[test]
fn what_leads_to_nothing_but_itself_is_refused_before_any_text() {
    let text = json!({"type": "string"});
    for (constraint, words) in [
        (
            Constraint::JsonSchema(json!({"$ref": "#"})),
            "`$ref` leads back to itself",
        ),
        (
            Constraint::JsonSchema(
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            ),
            "in between at `#/$defs/",
        ),
        (
            Constraint::JsonSchema(
                json!({"properties": {"p": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"not": {"$ref": "#/$defs/n"}}}}),
            ),
            "at `#/$defs/n`",
        ),
        (
            Constraint::JsonSchema(
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [text, {"allOf": [{"$ref": "#/$defs/a"}]}]}}}),
            ),
            "at `#/$defs/a`",
        ),
        (
            Constraint::Lark("start: a\na: b\nb: a".to_owned()),
            "no text can match",
        ),
        (
            Constraint::Lark("start: \"x\" a | \"y\"\na: b\nb: a".to_owned()),
            "no text can match the rule",
        ),
        (
            Constraint::Gbnf("root ::= \"x\" a\na ::= b | b b\nb ::= a".to_owned()),
            "no text can match",
        ),
    ] {
        let refusal = refusal(&constraint);
        assert!(refusal.contains(words), "{constraint:?}: {refusal}");
    }
    let endless = json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]});
    let endless = Constraint::JsonSchema(json!({"properties": {"q": {}, "p": endless}}));
    let tree = json!({"type": "object", "properties": {"v": text, "l": {"$ref": "#"}, "r": {"type": "array", "items": {"$ref": "#"}}}, "required": ["v", "r"]});
    let rules = Constraint::Lark("start: list\nlist: \"[\" (list (\",\" list)*)? \"]\"".to_owned());
    for constraint in [Constraint::JsonSchema(tree), rules, endless] {
        replying("[]").compile(&constraint).expect("can go on");
    }
}
