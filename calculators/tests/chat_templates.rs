//! Public chat templates give the text that Python's jinja2 gives, and fail where it fails.

use std::sync::Arc;

use graphmill_calculators::text::chat_template::{ChatTemplate, Clock, TemplateError};
use serde_json::Value;

use crate::shared::shared;

fn clock() -> Clock {
    let date = chrono::NaiveDate::from_ymd_opt(2026, 1, 2).expect("a date");
    let time = date.and_hms_opt(3, 4, 5).expect("a time");
    Arc::new(move || time)
}

#[test]
fn public_templates_render_as_in_python() {
    let folder = shared().join("conformance/chat_templates");
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("skipped: no {}", folder.display());
        return;
    };
    let mut failures = Vec::new();
    let mut cases = 0;
    for file in files {
        let path = file.expect("a folder entry").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let suite: Value =
            serde_json::from_slice(&std::fs::read(&path).expect("a case file")).expect("JSON");
        let name = suite["template"].as_str().expect("the template's name");
        let source = std::fs::read_to_string(shared().join("corpus/chat_templates").join(name))
            .expect("the template");
        let template = ChatTemplate::with_clock(&source, clock());
        for case in suite["cases"].as_array().expect("cases") {
            cases += 1;
            let rendered = template
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|template| template.render(&case["input"]));
            if let Some(failure) = judge(case, rendered) {
                failures.push(format!("{name} / {}: {failure}", case["name"]));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {cases} cases:\n{}",
        failures.len(),
        failures.join("\n")
    );
    println!("{cases} cases");
}

fn judge(case: &Value, rendered: Result<String, TemplateError>) -> Option<String> {
    match (case.get("error"), case["expected"].as_str(), rendered) {
        (Some(Value::String(message)), _, Err(TemplateError::Raised(raised)))
            if *message == raised =>
        {
            None
        }
        (Some(Value::Null), _, Err(_)) => None,
        (Some(error), _, outcome) => Some(format!("expected the error {error}, got {outcome:?}")),
        (None, Some(expected), Ok(text)) if expected == text => None,
        (None, expected, outcome) => Some(format!("expected {expected:?}\n     got {outcome:?}")),
    }
}

/// `jinja2/cases.json`: operators, methods, filters, tests, loops, macros and white space, answered
/// by Python's jinja2.
#[test]
fn every_construct_means_what_it_means_in_python() {
    let suite: Value = serde_json::from_str(include_str!("jinja2/cases.json")).expect("JSON");
    let mut failures = Vec::new();
    for case in suite["cases"].as_array().expect("cases") {
        let source = case["template"].as_str().expect("a template");
        let rendered = ChatTemplate::with_clock(source, clock())
            .and_then(|template| template.render(&suite["variables"]));
        let agrees = match (case["expected"].as_str(), &rendered) {
            (Some(expected), Ok(text)) => expected == text,
            (None, Err(_)) => true,
            _ => false,
        };
        if !agrees {
            failures.push(format!(
                "{source:?}\n  python {case}\n  here   {rendered:?}"
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn errors_name_the_line_of_the_template() {
    let syntax =
        ChatTemplate::new("a\n{% if x %}\n{{ y z }}{% endif %}").expect_err("a syntax error");
    assert!(
        matches!(&syntax, TemplateError::Syntax { line: 3, .. }),
        "{syntax:?}"
    );
    let template = ChatTemplate::new("a\n{% for m in messages %}\n\n{{ m.role + 1 }}{% endfor %}")
        .expect("a template");
    let failure = template
        .render(&serde_json::json!({"messages": [{"role": "user"}]}))
        .expect_err("a type error");
    assert_eq!(
        failure.to_string(),
        "chat template, line 4: can only concatenate str (not \"int\") to str"
    );
    let raised = ChatTemplate::new("{{ raise_exception('no ' ~ 1) }}").expect("a template");
    assert_eq!(
        raised.render(&serde_json::json!({})),
        Err(TemplateError::Raised("no 1".to_owned()))
    );
}

#[test]
fn runaway_templates_end_with_an_error() {
    let endless = "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}";
    let nested =
        "{% macro m(v) %}{% for x in v %}[{{ m(x) }}]{% endfor %}{% endmacro %}{{ m(messages) }}";
    let mut deep = serde_json::json!([]);
    for _ in 0..60 {
        deep = serde_json::json!([deep]);
    }
    let variables = serde_json::json!({"messages": deep});
    // the stack of a thread that serves requests
    let run = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            let render = |source: &str| {
                ChatTemplate::new(source)
                    .expect("a template")
                    .render(&variables)
            };
            (render(endless), render(nested))
        });
    let (endless, nested) = run.expect("a thread").join().expect("no overflow");
    assert!(
        matches!(endless, Err(TemplateError::Render { .. })),
        "{endless:?}"
    );
    assert_eq!(nested, Ok("[".repeat(60) + &"]".repeat(60)));
    for source in [
        "{{ 'x' * 100000000 }}",
        "{{ (['a' * 5000000] * 10000) | sort | length }}",
        "{{ (['a' * 5000000] * 10000) | max | length }}",
        "{{ (['a' * 9000000] * 90000) | select('eq', 'b') | list | length }}",
        "{{ range(1000000) }}",
        "{% set __py_add = 1 %}",
        "{% macro __py_eq() %}{% endmacro %}",
    ] {
        let outcome =
            ChatTemplate::new(source).and_then(|template| template.render(&serde_json::json!({})));
        assert!(outcome.is_err(), "{source}: {outcome:?}");
    }
}

#[test]
fn a_template_that_takes_too_much_is_stopped() {
    let nested = "{% for a in range(100000) %}{% for b in range(100000) %}{% if a == b %}{% endif %}{% endfor %}{% endfor %}";
    let doubled = |step: &str| {
        format!(
            "{{% set ns = namespace(x=messages[0].content) %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}{{{{ ns.x | length }}}}"
        )
    };
    let nests = "{% set ns = namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    let templates = [
        nested.to_owned(),
        doubled("ns.x ~ ns.x"),
        doubled("ns.x + ns.x"),
        doubled("[ns.x, ns.x] | join"),
        doubled("''.join([ns.x, ns.x])"),
        doubled("ns.x.replace('a', 'aa')"),
        doubled("ns.x | replace('a', 'aa')"),
        doubled("'%s%s' % (ns.x, ns.x)"),
        doubled("'%s%s' | format(ns.x, ns.x)"),
        doubled("'{0}{0}'.format(ns.x)"),
        doubled("(ns.x | list) + (ns.x | list)"),
        format!("{nests}{{{{ ns.x }}}}"),
        format!("{nests}{{{{ ns.x | tojson }}}}"),
        format!("{nests}{{{{ ns.x == ns.x }}}}"),
        format!("{nests}{{{{ ns.x | string | length }}}}"),
        "{{ '%1000000000000d' % 5 }}".to_owned(),
        "{{ '%*d' % (10000000000, 5) }}".to_owned(),
        "{{ '%.1000000000f' | format(0.5) }}".to_owned(),
        "{{ '{:>1000000000000}'.format('a') }}".to_owned(),
        "{% set x = 'a' * 9999999 %}{{ (x | list) | join(x) }}".to_owned(),
        "{% set x = 'a' * 9999999 %}{{ x.join(x) }}".to_owned(),
        "{% set x = 'a\n' * 999999 %}{{ x | indent(x) }}".to_owned(),
        "{{ ([[1]] * 999999) | tojson(indent='a' * 999999) }}".to_owned(),
        "{{ range(100000) | map(attribute='a' * 9999999) | list }}".to_owned(),
        "{{ range(100000) | sort(attribute='a,' * 9999) }}".to_owned(),
        "{% for i in range(100000) %}{{ 'a' * 9999999 }}{% endfor %}".to_owned(),
        "{% for i in range(100000) %}{% set x = 'a' * 9999999 %}{% endfor %}".to_owned(),
        "{% set x = 'a' * 9999999 %}{% for i in range(100000) %}{% set y = 'b' in x %}{% endfor %}"
            .to_owned(),
        "{% set x = range(100000) | list %}{% for i in x %}{% set y = -1 in x %}{% endfor %}"
            .to_owned(),
        "{% set x %}{% for i in range(100000) %}{{ 'a' * 999999 }}{% endfor %}{% endset %}"
            .to_owned(),
        format!(
            "{{% for i in range(100000) %}}{}{{% endfor %}}",
            "raw ".repeat(256)
        ),
    ];
    let input = serde_json::json!({ "messages": [{ "role": "user", "content": "a" }] });
    let mut failures = Vec::new();
    for source in templates {
        let template = ChatTemplate::new(&source).expect(&source);
        let rendered = template.render(&input).map(|text| text.len());
        if !matches!(rendered, Err(TemplateError::Stopped { .. })) {
            failures.push(format!("{source}: {rendered:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // Refused at once, as by jinja2's sandbox.
    for source in [
        "{{ 'x' * 10 ** 10 }}",
        "{{ range(10 ** 9) }}",
        "{{ 'a'.center(10 ** 9) }}",
    ] {
        let template = ChatTemplate::new(source).expect(source);
        assert!(template.render(&input).is_err(), "{source}");
    }
}

#[test]
fn a_long_conversation_is_rendered() {
    let source = "{% for m in messages %}<{{ m.role }}>{{ m['content'].strip().split('</think>')[-1] | trim }}{% endfor %}";
    let messages: Vec<Value> = (0..50_000)
        .map(|i| serde_json::json!({ "role": "user", "content": format!("{i} ").repeat(20) }))
        .collect();
    let template = ChatTemplate::new(source).expect("valid");
    let text = template.render(&serde_json::json!({ "messages": messages }));
    assert!(text.expect("within the limits").len() > 1_000_000);
}

#[test]
fn a_rendering_that_nobody_waits_for_ends() {
    let source = "{% for a in range(1000) %}{{ a }}{% endfor %}";
    let template = ChatTemplate::new(source).expect("valid");
    let cancel = graphmill_engine::CancelToken::default();
    let input = serde_json::json!({});
    assert!(template.render_until(&input, cancel.clone()).is_ok());
    cancel.cancel();
    let stopped = template.render_until(&input, cancel);
    assert!(
        matches!(stopped, Err(TemplateError::Stopped { .. })),
        "{stopped:?}"
    );
}
