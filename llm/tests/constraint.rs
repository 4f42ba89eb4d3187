//! Constrained generation on models whose logits are a function of the text: what is generated
//! matches, does not depend on drafts or neighbors, and ends where it is complete.

use crate::speculating::{Said, chat, markov, same_texts, scripted, start, variants};
use graphmill_llm::backend::scripted::{Reply, Script, Then};
use graphmill_llm::{
    Constraint, ErrorKind, FinishReason, GenerationRequest, LlmEngine, ReasoningMarks,
    SamplingParams, SubmitError, Token,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An engine that replies this to everything.
pub(crate) fn replying(text: &str) -> LlmEngine {
    let script = Script {
        replies: vec![Reply {
            when: String::new(),
            text: text.to_owned(),
            then: Then::End,
        }],
        ..Script::default()
    };
    scripted(script)
}

/// What a chat with the engine gives.
pub(crate) fn said(
    engine: &LlmEngine,
    constraint: &Constraint,
    adapt: impl FnOnce(&mut GenerationRequest),
) -> Said {
    let compiled = engine.compile(constraint).expect("can be compiled");
    let prompt = chat(engine, "hello");
    let run = start(engine, |request| {
        request.prompt = prompt;
        request.constraint = Some(compiled);
        adapt(request);
    });
    run.finish().0
}

fn text(tokens: &[Token]) -> String {
    let bytes = tokens
        .iter()
        .map(|token| u8::try_from(*token).expect("a byte"));
    String::from_utf8(bytes.collect()).expect("whole characters")
}

fn stopped(said: &Said) -> String {
    assert_eq!(said.finish, FinishReason::Stop);
    text(&said.tokens)
}

/// A constraint, and what is made of the reply where it does not match.
type Held = (Constraint, &'static str);

#[test]
fn marks_are_told_by_special_tokens_anywhere_in_them() {
    let up_to = |text: Option<&str>| Constraint::TextUpTo {
        text: text.map(str::to_owned).into_iter().collect(),
        end: "</|D|p>".to_owned(),
    };
    let text = |text: &str| Constraint::Text(text.to_owned());
    let engine = scripted(Script {
        special_tokens: vec!["|D|".to_owned()],
        replies: vec![Reply {
            text: "a</x</|D|p>b".to_owned(),
            ..Reply::default()
        }],
        ..Script::default()
    });
    let all: [Held; 4] = [
        (
            Constraint::Sequence(vec![up_to(None), text("b")]),
            "a</x</|D|p>b",
        ),
        (
            Constraint::Sequence(vec![up_to(Some("/[a-z\\/<]+/")), text("b")]),
            "a</x</|D|p>b",
        ),
        (
            Constraint::Sequence(vec![
                text("a</x"),
                Constraint::Mark("</|D|p>".to_owned()),
                text("c"),
            ]),
            "a</x</|D|p>c",
        ),
        (
            Constraint::TextWith(vec![("</|D|p>".to_owned(), text("c"))]),
            "a</x</|D|p>c",
        ),
    ];
    for (constraint, expected) in all {
        let said = said(&engine, &constraint, |_| {});
        let expected = engine
            .vocab()
            .tokenize(expected, false, true)
            .expect("is text");
        assert!(
            said.tokens.starts_with(&expected),
            "{constraint:?}: {:?}",
            said.tokens
        );
    }
}

fn choice(choices: &[&str]) -> Constraint {
    Constraint::Choice(choices.iter().map(|choice| (*choice).to_owned()).collect())
}

fn regex(regex: &str) -> Constraint {
    Constraint::Regex(regex.to_owned())
}

/// Whether a text matches a constraint, found out without it.
type Matches = fn(&str) -> bool;

/// What texts of the [`Markov`] model are held to, and whether a text matches it.
fn constraints() -> Vec<(Constraint, Matches)> {
    let is_strings = |text: &str| {
        let value: Result<Vec<String>, _> = serde_json::from_str(text);
        value.is_ok_and(|strings| {
            let is_short = |string: &String| (1..=4).contains(&string.len());
            strings.len() >= 2 && strings.iter().all(is_short)
        })
    };
    let is_object = |text: &str| {
        serde_json::from_str(text).is_ok_and(|value: Value| {
            value["name"].is_string() && (value["tag"] == "abc" || value["tag"] == "fed")
        })
    };
    vec![
        (
            Constraint::JsonSchema(
                json!({"type": "array", "minItems": 2, "items": {"type": "string", "minLength": 1, "maxLength": 4}}),
            ),
            is_strings,
        ),
        (
            Constraint::JsonSchema(json!({
                "type": "object",
                "properties": {"name": {"type": "string"}, "tag": {"enum": ["abc", "fed"]}},
                "required": ["name", "tag"],
                "additionalProperties": false,
            })),
            is_object,
        ),
        (regex("(ab|cd|[ef]{2}|ba)+"), |text| {
            text.len() % 2 == 0 && !text.is_empty()
        }),
        (
            Constraint::Gbnf("root ::= \"(\" root* \")\" | [a-f]".to_owned()),
            |text| text.matches('(').count() == text.matches(')').count(),
        ),
        (choice(&["abcabc", "fade", "deaf", "facade"]), |text| {
            ["abcabc", "fade", "deaf", "facade"].contains(&text)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn constrained_texts_match_and_neither_drafts_nor_neighbors_change_them(
        variants in prop::collection::vec((variants(), prop::option::weighted(0.8, 0..5_usize)), 1..6),
        cells in prop_oneof![Just(4096_usize), 200..600_usize],
    ) {
        let engine = markov(cells);
        let constraints = constraints();
        let apply = |request: &mut GenerationRequest, index: usize, speculates: bool| {
            let (variant, constraint) = &variants[index];
            variant.apply(request, speculates);
            request.constraint = constraint.map(|number| {
                engine.compile(&constraints[number].0).expect("can be compiled")
            });
        };
        let plain = same_texts(&engine, variants.len(), apply, |index| index % 3 != 2)?;
        for (said, (_, constraint)) in plain.iter().zip(&variants) {
            if let Some(number) = constraint {
                prop_assert!(!matches!(said.finish, FinishReason::Error(_)), "{said:?}");
                let matches = constraints[*number].1;
                // One that is cut off can end in the middle of a character.
                if said.finish == FinishReason::Stop {
                    let text = text(&said.tokens);
                    prop_assert!(matches(&text), "{}", text);
                }
            }
        }
    }
}

#[test]
fn a_text_is_what_the_model_wants_of_what_is_allowed() {
    let choices = choice(&["no", "not now", "yes"]);
    for (wanted, given) in [("yes", "yes"), ("no", "no"), ("not now, sir", "not now")] {
        assert_eq!(stopped(&said(&replying(wanted), &choices, |_| {})), given);
    }
}

#[test]
fn a_complete_text_ends_without_an_end_token() {
    let engine = replying("{\"a\": 1} and more");
    let schema = Constraint::JsonSchema(
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}),
    );
    let whole = said(&engine, &schema, |_| {});
    assert_eq!(stopped(&whole), "{\"a\": 1}");
    assert_eq!((whole.end_token, whole.generated), (None, 8));
    // Its last token may be the last that is allowed.
    let exact = said(&engine, &schema, |request| request.max_tokens = Some(8));
    assert_eq!(exact, whole);
    let cut = said(&engine, &schema, |request| request.max_tokens = Some(7));
    assert_eq!(
        (text(&cut.tokens), cut.finish),
        ("{\"a\": 1".to_owned(), FinishReason::Length)
    );
}

#[test]
fn an_ambiguous_grammar_ends_its_own_request_before_it_takes_the_time_of_others() {
    let grammar = Constraint::Gbnf("root ::= x*\nx ::= x x | [a-z]+ | \"\"".to_owned());
    let engine = replying(&"a".repeat(1000));
    let said = said(&engine, &grammar, |request| {
        request.max_tokens = Some(1000);
    });
    let FinishReason::Error(error) = said.finish else {
        panic!("{:?}", said.finish)
    };
    assert_eq!(error.kind, ErrorKind::Constraint);
    assert!(error.message.contains("too many alternatives"), "{error:?}");
}

#[test]
fn a_model_that_is_lost_in_digits_or_white_space_comes_out() {
    let object = |property: Value| {
        Constraint::JsonSchema(
            json!({"type": "object", "properties": {"a": property}, "required": ["a"]}),
        )
    };
    let digits = |count: usize| "3".repeat(count);
    for (property, begins, longest) in [
        (json!({"type": "integer"}), String::new(), 16),
        (json!({"type": "integer", "minimum": 0}), String::new(), 16),
        (json!({"type": "number"}), String::new(), 20),
        (json!({"type": "number"}), "0.".to_owned(), 20),
        (json!({"type": "number"}), "-1e".to_owned(), 3),
        (json!({"type": "number"}), "1.5E-".to_owned(), 3),
        (
            json!({"type": "number", "minimum": -5}),
            "0.".to_owned(),
            20,
        ),
        (json!({}), "1.".to_owned(), 20),
    ] {
        let wanted = format!("{{\"a\": {begins}{}", digits(400));
        let given = stopped(&said(&replying(&wanted), &object(property.clone()), |_| {}));
        let expected = format!("{{\"a\":{begins}{}", digits(longest));
        // What it wants then, nobody knows.
        assert!(
            given.replace(' ', "").starts_with(&expected),
            "{property}: {given}"
        );
        assert!(
            given.ends_with('}') && given.len() < 60,
            "{property}: {given}"
        );
    }
    // Where many digits are meant, there are as many.
    let long = digits(60);
    for (property, wanted) in [
        (json!({"type": "string"}), format!("\"{long}\"")),
        (
            json!({"type": "string", "pattern": "^[0-9]{60}$"}),
            format!("\"{long}\""),
        ),
        (
            json!({"const": 1e30}),
            "1000000000000000000000000000000".to_owned(),
        ),
    ] {
        let wanted = format!("{{\"a\": {wanted}}}");
        assert_eq!(
            stopped(&said(&replying(&wanted), &object(property), |_| {})),
            wanted
        );
    }
    let numbers = Constraint::Regex("[0-9]{1,50}".to_owned());
    assert_eq!(
        stopped(&said(&replying(&digits(60)), &numbers, |_| {})),
        digits(50)
    );
    // White space, and properties that nobody asked for.
    let spaces = " ".repeat(400);
    let given = stopped(&said(
        &replying(&spaces),
        &object(json!({"type": "boolean"})),
        |_| {},
    ));
    assert!(given.len() < 60, "{given}");
    let more = "{\"a\": 1, \"b\": 2, \"c\": 3}";
    let given = said(&replying(more), &object(json!({"type": "integer"})), |_| {});
    assert!(!stopped(&given).contains("\"b\""));
}

#[test]
fn the_end_waits_for_the_least_length_where_the_constraint_lets_it() {
    let engine = replying("ab");
    let letters = regex("[a-z]{2,10}");
    assert_eq!(stopped(&said(&engine, &letters, |_| {})), "ab");
    assert_eq!(
        stopped(&said(&engine, &letters, |request| request.min_tokens = 5)),
        "abaaa"
    );
    // Nothing can follow the tenth letter.
    assert_eq!(
        stopped(&said(&engine, &letters, |request| request.min_tokens = 50)).len(),
        10
    );
    assert_eq!(
        stopped(&said(&engine, &letters, |request| request.ignore_eos = true)).len(),
        10
    );
}

#[test]
fn a_stop_token_ends_a_text_only_where_it_can_end() {
    let comma =
        |request: &mut GenerationRequest| request.stop_tokens = vec![Token::from(b',')].into();
    let list = said(
        &replying("[a,b], or not"),
        &regex(r"\[[a-z](,[a-z])*\]?"),
        comma,
    );
    // The first comma: `[a` matches already.
    assert_eq!(stopped(&list), "[a");
    assert_eq!(list.end_token, Some(Token::from(b',')));
    let whole = said(&replying("[a]"), &regex(r"\[[a-z]\]"), |request| {
        request.stop_tokens = vec![Token::from(b']')].into();
    });
    assert_eq!((stopped(&whole).as_str(), whole.end_token), ("[a]", None));
    let pair = said(
        &replying("[a,b], or not"),
        &regex(r"\[[a-z],[a-z]\][a-z]*"),
        comma,
    );
    assert_eq!(stopped(&pair), "[a,b]");
}

#[test]
fn log_probabilities_are_those_of_the_model() {
    let said = said(&replying("maybe"), &choice(&["no"]), |request| {
        request.sampling = SamplingParams {
            logprobs: Some(1),
            ..SamplingParams::greedy()
        };
    });
    assert_eq!(said.logprobs[0].token, Token::from(b'n'));
    assert_eq!(said.logprobs[0].top[0].0, Token::from(b'm'));
    assert!(said.logprobs[0].logprob < -19.0);
}

#[test]
fn reasoning_is_free_and_what_follows_is_not() {
    let marks = |is_open| ReasoningMarks {
        begin: "<think>".to_owned(),
        end: "</think>".to_owned(),
        is_open,
    };
    let constraint = |is_open| Constraint::AfterReasoning {
        marks: marks(is_open),
        then: Box::new(choice(&["yes", "no"])),
    };
    for (is_open, wanted, given) in [
        (
            false,
            "<think>Hm, {</think>\n\nno!",
            "<think>Hm, {</think>\n\nno",
        ),
        (false, "no</think>", "no"),
        (true, "Hm.</think>yes", "Hm.</think>yes"),
    ] {
        let said = said(&replying(wanted), &constraint(is_open), |_| {});
        assert_eq!(stopped(&said), given);
    }
    // Marks may be tokens that are no text.
    let engine = replying("<|im_start|>Hm.<|im_end|>yes");
    let controlled = Constraint::AfterReasoning {
        marks: ReasoningMarks {
            begin: "<|im_start|>a".to_owned(),
            end: "<|im_end|>".to_owned(),
            is_open: false,
        },
        then: Box::new(choice(&["yes", "no"])),
    };
    assert_eq!(stopped(&said(&engine, &controlled, |_| {})), "no");
    // It does not end within the reasoning.
    let unfinished = said(&replying("Hm."), &constraint(true), |_| {});
    assert_eq!(unfinished.finish, FinishReason::Length);
}

#[test]
fn one_of_several_constraints_is_matched() {
    let constraint = Constraint::AnyOf(vec![
        Constraint::JsonSchema(json!({"type": "integer"})),
        Constraint::Lark("start: \"<tool_call>\" /[a-z]+/ \"</tool_call>\"".to_owned()),
    ]);
    for (wanted, given) in [
        ("12", "12"),
        ("<tool_call>go</tool_call>", "<tool_call>go</tool_call>"),
    ] {
        let engine = replying(wanted);
        assert_eq!(stopped(&said(&engine, &constraint, |_| {})), given);
    }
}

#[test]
fn grammars_in_both_notations_are_followed() {
    let gbnf = r#"
        # Arithmetic, as llama.cpp users write it.
        root  ::= (expr "=" ws term "\n")+
        expr  ::= term ([-+*/] term)*
        term  ::= ident | num | "(" ws expr ")" ws
        ident ::= [a-z] [a-z0-9_]* ws
        num   ::= [0-9]+ ws
        ws    ::= [ \t\n]*
    "#;
    let lark = "start: expr\nexpr: term ((\"+\" | \"*\") term)*\nterm: /[0-9]+/ | \"(\" expr \")\"";
    for (constraint, wanted) in [
        (Constraint::Gbnf(gbnf.to_owned()), "(x1 +2)*y = 14\n"),
        (Constraint::Lark(lark.to_owned()), "(1+2)*3"),
    ] {
        assert_eq!(
            stopped(&said(&replying(wanted), &constraint, |_| {})),
            wanted
        );
    }
}

#[test]
fn what_cannot_be_compiled_is_refused() {
    let engine = replying("");
    for constraint in [
        regex("(?=a)b"),
        regex("("),
        regex(""),
        choice(&[]),
        Constraint::AnyOf(vec![]),
        Constraint::Lark("start: missing".to_owned()),
        Constraint::Lark("start: ".to_owned() + &"(".repeat(100_000)),
        Constraint::Gbnf("root ::= missing".to_owned()),
        Constraint::JsonSchema(json!({"type": "strin"})),
        Constraint::JsonSchema(json!({"type": "integer", "minimum": 3, "maximum": 2})),
        Constraint::JsonSchema(json!({"type": "array", "uniqueItems": true})),
        Constraint::JsonSchema(json!({"$ref": "https://example.com/schema"})),
        Constraint::JsonSchema(json!({"$ref": "#"})),
        Constraint::JsonSchema(json!({"oneOf": [{"type": "integer"}, {"type": "number"}]})),
        Constraint::JsonSchema(json!({"not": {}})),
        Constraint::JsonSchema(json!([])),
    ] {
        let error = engine.compile(&constraint).expect_err("cannot be compiled");
        assert!(
            !error.to_string().is_empty() && !error.to_string().contains("<non-verbose/>"),
            "{error}"
        );
    }
}

#[test]
fn the_largest_constraints_are_compiled_or_refused() {
    let engine = replying("");
    let properties = |count| -> serde_json::Map<String, Value> {
        (0..count)
            .map(|number| (format!("p{number}"), json!({})))
            .collect()
    };
    let rules = |count: usize, rule: fn(usize) -> String| (0..count).map(rule).collect::<String>();
    let constraints = [
        Constraint::JsonSchema(json!({"type": "object", "properties": properties(18_000)})),
        Constraint::JsonSchema(json!({"anyOf": vec![json!({"type": "object"}); 1_000]})),
        Constraint::JsonSchema(json!({"enum": vec!["abcdefgh"; 5_000]})),
        Constraint::JsonSchema(json!({"type": "array", "minItems": 1_000_000_000})),
        Constraint::JsonSchema(json!({"type": "string", "minLength": 1_000_000_000})),
        Constraint::Lark(
            "start: r0\n".to_owned()
                + &rules(3_000, |number| {
                    format!("r{number}: \"a\" r{}\n", number + 1)
                })
                + "r3000: \"b\"",
        ),
        Constraint::Lark(
            "start: T0\n".to_owned()
                + &rules(3_000, |number| {
                    format!("T{number}: \"a\" T{}\n", number + 1)
                })
                + "T3000: \"b\"",
        ),
        Constraint::Gbnf(
            "root ::= r0\n".to_owned()
                + &rules(1_900, |number| {
                    format!("r{number} ::= \"a\" r{}\n", number + 1)
                })
                + "r1900 ::= \"b\"",
        ),
        Constraint::Gbnf("root ::= \"a\"".to_owned() + &"*".repeat(100_000)),
        regex(&"a".repeat(250_000)),
        regex(&"a?".repeat(300)),
        regex(&"(a|b)*".repeat(300)),
        regex("((a{1000}){1000}){1000}"),
        Constraint::Choice((0..3_000).map(|number| format!("choice{number}")).collect()),
        Constraint::Choice(vec!["a".repeat(250_000)]),
    ];
    for constraint in &constraints {
        if let Ok(compiled) = engine.compile(constraint) {
            let run = start(&engine, |request| {
                request.max_tokens = Some(3);
                request.constraint = Some(compiled);
            });
            run.finish();
        }
    }
}

#[test]
fn a_constraint_of_another_engine_is_refused() {
    let (engine, other) = (replying("no"), replying("no"));
    let constraint = choice(&["no"]);
    let compiled = other.compile(&constraint).expect("can be compiled");
    let mut request = GenerationRequest::new(vec![97], |_| {});
    request.constraint = Some(compiled);
    engine.compile(&constraint).expect("can be compiled");
    let error = engine.submit(request).expect_err("not its own");
    assert!(matches!(
        error,
        SubmitError::InvalidParameter {
            field: "constraint",
            ..
        }
    ));
}

#[test]
fn a_constraint_that_proves_too_complex_ends_its_sequence_alone() {
    let engine = replying("{\"a\": 1}");
    // So many properties may come next that the matcher gives up.
    let object = |of: usize| {
        let property = |number| (format!("p{of}_{number}"), json!({"type": "string"}));
        let properties: serde_json::Map<String, Value> = (0..250).map(property).collect();
        json!({"type": "object", "properties": properties})
    };
    let any: Vec<_> = (0..5).map(object).collect();
    let schema = Constraint::JsonSchema(json!({ "anyOf": any }));
    let failed = said(&engine, &schema, |_| {});
    let FinishReason::Error(error) = failed.finish else {
        panic!("{failed:?}");
    };
    assert_eq!(error.kind, ErrorKind::Constraint);
    assert!(error.message.contains("too many alternatives"), "{error}");
    assert_eq!(
        stopped(&said(&engine, &Constraint::JsonObject, |_| {})),
        "{\"a\": 1}"
    );
    assert_eq!(engine.status().failed_steps, 0);
}
