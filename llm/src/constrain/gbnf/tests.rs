use super::*;

#[test]
fn what_does_not_lead_to_itself_is_matched_as_a_whole() {
    let lark = to_lark(
        "root ::= \"<\" word \">\" ws root | \"\" # nested\nword ::= [a-z]+\nws ::= [ ]*\n",
    );
    assert_eq!(
        lark.expect("a grammar"),
        "start: r0\nr0: X0 r2 r0 | \"\"\nr1: (/[\\x{61}-\\x{7A}]/)+\nr2: (/[\\x{20}]/)*\n\
         T1: (/[\\x{61}-\\x{7A}]/)+\nT2: (/[\\x{20}]/)*\nX0: \"<\" T1 \">\"\n"
    );
    let lark = to_lark("root ::= word \".\"\nword ::= [a-z]+");
    assert_eq!(
        lark.expect("a grammar"),
        "start: T0\nT0: T1 \".\"\nT1: (/[\\x{61}-\\x{7A}]/)+\n"
    );
}

#[test]
fn lines_go_on_within_brackets_and_behind_bars() {
    let lark = to_lark("root ::=\n  (\"a\"\n  | \"b\" ){2,3} |\n  \"\\u00e9\\x41\" [^\\]] .?");
    assert_eq!(
        lark.expect("a grammar"),
        "start: T0\nT0: ((\"a\" | \"b\")){2,3} | \"éA\" /[^\\x{5D}]/ (/(?s:.)/)?\n"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, message) in [
        ("root ::= \"a", "line 1: unterminated string"),
        ("root ::= a\n", "the rule `a` is missing"),
        ("a ::= \"a\"", "the rule `root` is missing"),
        (
            "root = \"a\"",
            "line 1: expected `::=` after the name of a rule",
        ),
        (
            "root ::= \"a\"\nroot ::= \"b\"",
            "line 2: the rule `root` is defined twice",
        ),
        ("root ::= (\"a\"\n", "line 2: expected `)`"),
        (
            "root ::= [z-a]",
            "line 1: a range of characters has its larger end first",
        ),
        ("root ::= \"\\q\"", "line 1: unknown escape"),
        (
            "root ::= \"a\"{3,2}",
            "line 1: the minimum of a repetition is above its maximum",
        ),
        ("root ::= \"a\" ]", "line 1: expected the end of the rule"),
    ] {
        assert_eq!(
            to_lark(text),
            Err(ConstraintError(message.to_owned())),
            "{text}"
        );
    }
    let deep = format!("root ::= {}", "(".repeat(100_000));
    assert!(to_lark(&deep).is_err());
}
