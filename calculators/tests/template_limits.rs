//! Chat templates that are too much for a thread's stack: each is refused, and none ends the
//! process.

use graphmill_calculators::text::chat_template::{ChatTemplate, TemplateError};
use serde_json::json;

fn render(source: &str) -> Result<String, TemplateError> {
    let messages =
        json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": "Hello" }]);
    ChatTemplate::new(source)?.render(&json!({ "messages": messages }))
}

/// A template with something repeated between a beginning and an end.
fn chain(begin: &str, link: &str, end: &str) -> String {
    format!("{begin}{}{end}", link.repeat(50_000))
}

#[test]
fn chains_are_refused_where_they_begin() {
    let chains = [
        chain("{{ 1", "+1", " }}"),
        chain("{{ 1", "*1", " }}"),
        chain("{{ 2", "**1", " }}"),
        chain("{{ 'a'", "~'a'", " }}"),
        chain("{{ 1", "<2", " }}"),
        chain("{{ ", "not ", "1 }}"),
        chain("{{ ", "-", "1 }}"),
        chain("{{ ", "- ", "1 }}"),
        chain("{{ 1", " and 1", " }}"),
        chain("{{ 1", " or 1", " }}"),
        chain("{{ ", "1 if 1 else ", "1 }}"),
        chain("{{ 1", " if 1", " }}"),
        chain("{{ 'a'", "|trim", " }}"),
        chain("{{ 1", " is defined", " }}"),
        chain("{{ messages", ".a", " }}"),
        chain("{{ messages", "[0]", " }}"),
        chain("{{ messages", "[:]", " }}"),
        chain("{{ messages", "()", " }}"),
        chain("{{ 1", " in 1", " }}"),
        chain("{% set ", "(", "a = 1 %}"),
        chain("{% set a", ".b", " = 1 %}"),
        chain("{% for ", "(", "a in b %}{% endfor %}"),
        chain("{% filter trim", "|trim", " %}{% endfilter %}"),
        chain("{% set a | trim", "|trim", " %}{% endset %}"),
        chain("{{ ", "(", " }}"),
        chain("{{ ", "[", " }}"),
        chain("{{ ", "{1:", " }}"),
        chain("{{ a", "[a", " }}"),
        chain("{{ ", "a(", " }}"),
        chain("{% if 1 %}", "{% if 1 %}", ""),
        chain("{% if 1 %}", "{% elif 1 %}", "{% endif %}"),
        chain("", "{% for a in b %}", ""),
        chain("", "{% macro a() %}", ""),
        chain("", "{% macro a() %}{% endmacro %}", ""),
        chain("", "{% set a %}", ""),
        chain("", "{% with a = 1 %}", ""),
        "a".repeat(2 << 20),
    ];
    for source in chains {
        let begin = &source[..source.len().min(40)];
        match ChatTemplate::new(&source) {
            Err(TemplateError::Syntax { line: 1, .. }) => {}
            other => panic!("{begin}: {other:?}"),
        }
    }
    let error = ChatTemplate::new(&format!("a\n  {}", chain("{{ 1", "+1", " }}")));
    assert_eq!(
        error.expect_err("too long").to_string(),
        "chat template, line 2: column 3: a tag can have at most 1000 names, numbers, texts and signs"
    );
}

#[test]
fn what_is_as_long_as_it_may_be_is_compiled_and_rendered() {
    let sum = format!("{{{{ 1{} }}}}", "+1".repeat(499));
    assert_eq!(render(&sum), Ok("500".to_owned()));
    let not = format!("{{{{ {}1 }}}}", "not ".repeat(998));
    assert_eq!(render(&not), Ok("True".to_owned()));
    let path = format!("{{{{ 'a'{} }}}}", "|trim".repeat(499));
    assert_eq!(render(&path), Ok("a".to_owned()));
    let choice = format!(
        "{{% if 0 %}}{}{{% else %}}b{{% endif %}}",
        "{% elif 0 %}".repeat(250)
    );
    assert_eq!(render(&choice), Ok("b".to_owned()));
}

/// Each makes a value that is deeper with each turn, and then something of it.
#[test]
fn deep_values_are_refused_before_anything_goes_through_them() {
    let begin = "{% set ns = namespace(a=[1]) %}{% for i in range(100000) %}";
    for wrap in [
        "[ns.a]",
        "(ns.a,)",
        "{1: ns.a}",
        "{'a': [ns.a]}",
        "ns.a|batch(1)|list",
        "[ns.a]|list",
        "[ns.a][:]",
        "[[ns.a]]|map('list')|list",
        "dict(a=ns.a)",
        "{'a': ns.a}|items|list",
        "{'a': ns.a}.items()",
        "[ns.a]|reverse",
        "[[ns.a, 1]]|groupby('1')",
    ] {
        let source = format!("{begin}{{% set ns.a = {wrap} %}}{{% endfor %}}{{{{ ns.a }}}}");
        match render(&source) {
            Err(TemplateError::Render { message, .. }) => {
                assert!(message.contains("levels deep"), "{wrap}: {message}");
            }
            other => panic!("{wrap}: {other:?}"),
        }
    }
    // Without a loop, and with macros.
    let straight = format!(
        "{{% set a = [] %}}{}{{{{ a }}}}",
        "{% set a = [a] %}".repeat(10_000)
    );
    let called = format!(
        "{{% macro f(a) %}}{}{{{{ f(a) }}}}{{% endmacro %}}{{{{ f([]) }}}}",
        "{% set a = [a] %}".repeat(1_000)
    );
    let nested = "{% macro f(a) %}{{ f([[[[[[a]]]]]]) }}{% endmacro %}{{ f([]) }}";
    let looped = "{% for a in [[]] recursive %}{{ loop([[[[[[a]]]]]]) }}{% endfor %}";
    for source in [&straight, &called, nested, looped] {
        assert!(matches!(render(source), Err(TemplateError::Render { .. })));
    }
}

#[test]
fn what_one_expression_makes_is_no_deeper_than_anything_can_take() {
    let deep = format!("[1]{}|list", "|batch(1)".repeat(190));
    for use_of in [
        "VALUE",
        "VALUE|tojson",
        "VALUE == VALUE",
        "VALUE < VALUE",
        "VALUE in [VALUE]",
        "VALUE|string",
        "VALUE ~ 'a'",
        "'%s' % [VALUE]",
        "[VALUE]|join",
        "[VALUE, VALUE]|sort",
        "[VALUE, VALUE]|unique|list",
        "[VALUE, VALUE]|max",
        "[VALUE].index(VALUE)",
        "{'a': VALUE}|urlencode",
        "{(VALUE,): 1}",
        "unknown[VALUE]",
        "namespace(a=VALUE)",
    ] {
        // Whatever it gives; tags are too long where there are several.
        let _ = render(&format!("{{{{ {} }}}}", use_of.replace("VALUE", &deep)));
    }
}

#[test]
fn namespaces_hold_no_rings_and_no_chains() {
    let ring = "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}";
    let list = "{% set ns = namespace() %}{% set ns.a = [{'b': ns}] %}{{ ns }}";
    let chained = format!(
        "{{% set ns = namespace() %}}{}{{{{ ns }}}}",
        "{% set ns = namespace(a=ns) %}".repeat(20_000)
    );
    let cycled = format!(
        "{{% set c = cycler(1) %}}{}{{{{ c }}}}",
        "{% set c = cycler(c) %}".repeat(20_000)
    );
    let methods = format!(
        "{{% set m = 1 %}}{}{{{{ m }}}}",
        "{% set m = {'a': m}.get %}".repeat(20_000)
    );
    let loops = "{% set ns = namespace() %}{% for a in [1, 2] %}{% set ns.a = loop %}{% endfor %}";
    for source in [ring, list, &chained, &cycled, &methods, loops] {
        match render(source) {
            Err(TemplateError::Render { message, .. }) => {
                assert!(message.contains("hold data only"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn calls_that_call_themselves_end() {
    let filters = "{{ ['a']|map(*(['map'] * 100000))|list }}";
    let macros = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    let blocks = "{% block b %}{{ self.b() }}{% endblock %}";
    for source in [filters, macros, blocks] {
        assert!(render(source).is_err(), "{source}");
    }
}

#[test]
fn what_templates_do_with_namespaces_is_not_refused() {
    let source = "{% set ns = namespace(seen=[], last=none) %}\
        {% for m in messages %}{% set outer = loop %}{% set ns.seen = ns.seen + [{'m': m}] %}\
        {% set ns.last = m %}{% for c in m.content|list %}{% if outer.last and loop.last %}{{ c }}{% endif %}{% endfor %}\
        {% endfor %}{% set get = ns.last.get %}{{ get('role') }} {{ ns.seen|length }} {{ ns.seen[0].m.content }}";
    assert_eq!(render(source), Ok("oassistant 2 Hi".to_owned()));
}
