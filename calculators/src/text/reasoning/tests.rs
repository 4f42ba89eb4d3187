//! Texts of models in; reasoning and answers out, however the texts are divided.

use proptest::prelude::*;

use super::{FORMATS, ReasoningFormat, ReasoningOutput};

fn format(name: &str) -> &'static dyn ReasoningFormat {
    FORMATS.named(name).expect("known").expect("a format")
}

fn joined<'a>(
    format: &dyn ReasoningFormat,
    prompt: &str,
    pieces: impl IntoIterator<Item = &'a str>,
) -> (String, String) {
    let mut parser = format.parser(prompt);
    let mut outcome = (String::new(), String::new());
    let mut add = |parsed: ReasoningOutput| {
        outcome.0.push_str(&parsed.reasoning);
        outcome.1.push_str(&parsed.text);
    };
    for piece in pieces {
        add(parser.push(piece, false));
    }
    add(parser.push("", true));
    outcome
}

/// The reasoning and the rest of a whole text, which are those of its characters one by one.
fn parse(name: &str, prompt: &str, text: &str) -> (String, String) {
    let whole = joined(format(name), prompt, [text]);
    let ends = text
        .char_indices()
        .map(|(at, c)| &text[at..at + c.len_utf8()]);
    assert_eq!(joined(format(name), prompt, ends), whole, "{text}");
    whole
}

fn outcome(reasoning: &str, text: &str) -> (String, String) {
    (reasoning.to_owned(), text.to_owned())
}

#[test]
fn reasoning_stands_between_tags_before_the_answer() {
    let text = "<think>\nHm.\nSo.\n</think>\n\nYes: <think> is a tag.\n";
    assert_eq!(
        parse("think", "assistant\n", text),
        outcome("Hm.\nSo.", "Yes: <think> is a tag.\n")
    );
    assert_eq!(
        parse("think", "", "Yes </think>"),
        outcome("", "Yes </think>")
    );
    assert_eq!(parse("think", "", "<think></think>Yes"), outcome("", "Yes"));
    assert_eq!(
        parse("seed", "", "<seed:think>a</seed:think>b"),
        outcome("a", "b")
    );
    assert_eq!(parse("mistral", "", "[THINK]a[/THINK]b"), outcome("a", "b"));
}

#[test]
fn families_differ_in_their_tags() {
    for (family, text) in [
        ("gemma4", "<|channel>thought\nHm.\n<channel|>Yes"),
        ("apertus", "<|inner_prefix|>Hm.<|inner_suffix|>Yes"),
        ("minimax_m3", "<mm:think>Hm.</mm:think>Yes"),
        ("kimi_vl", "◁think▷Hm.◁/think▷Yes"),
        (
            "granite",
            "Here is my thought process:\nHm.\nHere is my response:\nYes",
        ),
        ("lfm2", "<think>Hm.</think>Yes"),
        ("minicpm5", "<think>\nHm.\n</think>\n\nYes"),
        // Answers have tags as well.
        (
            "command_r",
            "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes<|END_RESPONSE|>",
        ),
        (
            "command_r",
            "<|START_THINKING|>Hm.<|END_THINKING|>\n<|START_TEXT|>Yes<|END_TEXT|>",
        ),
        (
            "hunyuan",
            "<think>\nHm.\n</think>\n<answer>\nYes\n</answer>",
        ),
        ("granite33", "<think>Hm.</think><response>Yes</response>"),
    ] {
        assert_eq!(parse(family, "", text), outcome("Hm.", "Yes"), "{text}");
    }
    let plain = "<|START_RESPONSE|>Yes <a><|END_RESPONSE|>";
    assert_eq!(parse("command_r", "", plain), outcome("", "Yes <a>"));
    let call = "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[]";
    assert_eq!(
        parse("command_r", "", call),
        outcome("Hm.", "<|START_ACTION|>[]")
    );
    assert_eq!(parse("hunyuan", "", " Yes "), outcome("", " Yes "));
}

#[test]
fn onyx_thinks_to_itself() {
    let text = " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Yes<|eot|>";
    assert_eq!(parse("onyx", "", text), outcome("Hm.", "Yes"));
    let calls = "<atem:function_calls>\n</atem:function_calls>";
    let text =
        format!(" to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|>{calls}<|eom|>");
    assert_eq!(parse("onyx", "", &text), outcome("Hm.", calls));
    assert_eq!(
        parse("onyx", "", "<|message|>Yes<|eot|>"),
        outcome("", "Yes")
    );
    assert_eq!(parse("onyx", "", "Yes"), outcome("", "Yes"));
}

#[test]
fn a_prompt_can_open_the_reasoning() {
    let prompt = "<|im_start|>assistant\n<think>\n";
    assert_eq!(
        parse("think", prompt, "Hm.</think>Yes"),
        outcome("Hm.", "Yes")
    );
    assert_eq!(
        parse("think", prompt, "<think>Hm.</think>Yes"),
        outcome("Hm.", "Yes")
    );
    let closed = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    assert_eq!(parse("think", closed, "Yes"), outcome("", "Yes"));
}

#[test]
fn reasoning_without_an_end_is_no_answer() {
    assert_eq!(
        parse("think", "", "<think>Hm. </thi"),
        outcome("Hm. </thi", "")
    );
    assert_eq!(parse("think", "<think>", "Hm."), outcome("Hm.", ""));
    assert_eq!(
        parse("gptoss", "", "<|channel|>analysis<|message|>Hm."),
        outcome("Hm.", "")
    );
    assert_eq!(parse("gptoss", "", "<|channel|>anal"), outcome("", ""));
}

#[test]
fn harmony_thinks_in_the_analysis_channel() {
    let text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>";
    assert_eq!(parse("gptoss", "", text), outcome("Hm.", "Yes"));
    let preamble = "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant<|channel|>final<|message|>Yes";
    assert_eq!(
        parse("gptoss", "", preamble),
        outcome("", "Let me see.\nYes")
    );
    assert_eq!(parse("gptoss", "", "Yes"), outcome("", "Yes"));
    let call = "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>";
    assert_eq!(
        parse(
            "gptoss",
            "",
            &format!("<|channel|>analysis<|message|>Hm.<|end|>{call}")
        ),
        outcome("Hm.", call)
    );
}

#[test]
fn a_template_tells_its_format() {
    let name = |template: &str| FORMATS.taught_by(template).map(|taught| taught.names[0]);
    assert_eq!(name("<|channel|>"), Some("gptoss"));
    assert_eq!(name("{{ content.split('</think>')[-1] }}"), Some("think"));
    assert_eq!(name("<seed:think> </seed:think>"), Some("seed"));
    assert_eq!(name("<|channel>thought<channel|>"), Some("gemma4"));
    assert_eq!(name("to=self <|eom|>"), Some("onyx"));
    assert_eq!(name("<think> <answer> </think>"), Some("hunyuan"));
    assert_eq!(name("{{ messages }}"), None);
    // Those of OpenVINO Model Server.
    for known in ["qwen3", "gemma4", "gptoss", "onyx", "minicpm5", "lfm2"] {
        assert!(FORMATS.named(known).is_ok(), "{known}");
    }
    assert!(
        FORMATS
            .named("thinker")
            .is_err_and(|message| message.contains("thinker"))
    );
}

const PIECES: &[&str] = &[
    "<think>",
    "</think>",
    "<seed:think>",
    "</seed:think>",
    "[THINK]",
    "[/THINK]",
    "<|channel>thought",
    "<channel|>",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<answer>",
    "</answer>",
    " to=self",
    " to=user",
    "<|eom|>",
    "<|eot|>",
    "<",
    "think>",
    "/",
    " ",
    "\n",
    "Hm.",
    "é",
    "<|start|>",
    "assistant",
    "<|channel|>",
    "analysis",
    "final",
    "commentary",
    " to=functions.f",
    " to=python",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "{}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_division_gives_the_same_reasoning(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..20),
        cuts in prop::collection::vec(1usize..7, 1..30),
        number in 0..FORMATS.all.len(),
        opened: bool,
    ) {
        let text = pieces.concat();
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts.iter().cycle() {
            let Some((at, _)) = rest.char_indices().nth(*cut) else { break };
            let (part, remainder) = rest.split_at(at);
            parts.push(part);
            rest = remainder;
        }
        parts.push(rest);
        let format = FORMATS.all[number].format;
        let prompt = if opened { format.marks("").begin } else { String::new() };
        let whole = joined(format, &prompt, [text.as_str()]);
        prop_assert_eq!(&joined(format, &prompt, parts), &whole);
    }
}
