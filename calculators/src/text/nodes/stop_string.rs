//! `StopStringCalculator`: ends a text at a stop string.

use std::cmp::Reverse;
use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Result, register,
};
use graphmill_llm::{CompiledConstraint, ConstrainedText};

use super::by_prompt::{ChoiceStates, by_prompt};
use crate::payload::{Finish, GenerationParams, HeldLogprobs, TextChunk};
use crate::text::reasoning::partial;

/// Ends a choice's text at the first stop string in it, and its generation with it.
///
/// A stop string can be spread over any number of chunks. Only text that may still become one is
/// held back. The text ends before the stop string, or after it if the request wants it included.
/// The first complete match counts; of several that are complete at once, the longest. A text with
/// a constraint ends only where the constraint allows it: `PARAMS` comes from the
/// `ConstraintCalculator`, for each prompt at its timestamp. Log probabilities are emitted with the
/// text in which their tokens begin.
///
/// ```pbtxt
/// input_stream: "TEXT:text"
/// input_stream: "PARAMS:params"
/// output_stream: "TEXT:stopped"
/// node {
///   calculator: "StopStringCalculator"
///   input_stream: "TEXT:text"
///   input_stream: "PARAMS:params"
///   output_stream: "TEXT:stopped"
/// }
/// ```
#[derive(Default)]
pub struct StopString {
    stops: Arc<[String]>,
    include: bool,
    constraint: Option<CompiledConstraint>,
    choices: ChoiceStates<HeldChoice>,
}

/// The held-back text of one choice, with its log probabilities.
struct HeldChoice {
    matcher: Matcher,
    logprobs: HeldLogprobs,
    /// The text so far, if it has a constraint.
    constrained: Option<ConstrainedText>,
}

impl Calculator for StopString {
    const NAME: &'static str = "StopStringCalculator";
    const DOC: &'static str =
        "Ends a text, and its generation, at the first stop string of the request.";
    type Options = NoOptions;
    type Ports = (In<TextChunk>, In<GenerationParams>, Out<TextChunk>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.policy(by_prompt());
        (c.input("TEXT"), c.input("PARAMS"), c.output("TEXT"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self::default())
    }

    fn process(&mut self, (text, params, out): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(params) = cx.get(params) {
            let stops = params.stop.iter().filter(|stop| !stop.is_empty());
            self.stops = stops.cloned().collect();
            self.include = params.include_stop;
            let constraint = params.constraint.as_ref();
            self.constraint = constraint.and_then(|constraint| constraint.compiled.clone());
        }
        if self.stops.is_empty() {
            cx.forward(text, out);
            return Ok(Flow::Continue);
        }
        let Some(mut chunk) = cx.take(text) else {
            return Ok(Flow::Continue);
        };
        let new = || HeldChoice {
            matcher: Matcher::new(Arc::clone(&self.stops)),
            logprobs: HeldLogprobs::default(),
            constrained: self.constraint.as_ref().map(CompiledConstraint::text),
        };
        let choice = self.choices.state(chunk.prompt, chunk.index, new);
        if choice.matcher.matched {
            // The chunk was on its way when the text ended.
            return Ok(Flow::Continue);
        }
        let constrained = &mut choice.constrained;
        chunk.text = choice.matcher.push(&chunk.text, self.include, |text| {
            constrained.clone().is_none_or(|mut constrained| {
                constrained.push(text);
                constrained.can_end()
            })
        });
        if let Some(constrained) = constrained {
            constrained.push(&chunk.text);
        }
        choice.logprobs.hold(chunk.logprobs);
        if chunk.finish.is_some() && !choice.matcher.matched {
            chunk.text.push_str(&choice.matcher.finish());
            chunk.logprobs = choice.logprobs.finish();
        } else {
            chunk.logprobs = choice.logprobs.release(&chunk.text);
        }
        if choice.matcher.matched {
            chunk.stop.stop();
            chunk.finish = Some(Finish::StopString(choice.matcher.which));
        }
        let tells = chunk.echo.is_some() || !chunk.ids.is_empty();
        if !chunk.text.is_empty() || chunk.finish.is_some() || tells {
            cx.emit(out, chunk);
        }
        Ok(Flow::Continue)
    }
}
register!(StopString);

/// A search of one choice's text for all stop strings. The division of the text into chunks makes
/// no difference.
#[derive(Debug)]
struct Matcher {
    stops: Arc<[String]>,
    /// Text that may be the beginning of a stop string.
    held: String,
    matched: bool,
    /// Number of the stop string that matched: of several that end together, the longest.
    which: u16,
}

impl Matcher {
    fn new(stops: Arc<[String]>) -> Self {
        Self {
            stops,
            held: String::new(),
            matched: false,
            which: 0,
        }
    }

    /// Adds text, and returns the text that is certainly not part of a match. A match ends the text
    /// if `can_end` returns true for the text that was not returned before.
    fn push(&mut self, text: &str, include: bool, can_end: impl Fn(&str) -> bool) -> String {
        let before = self.held.len();
        self.held.push_str(text);
        for end in before + 1..=self.held.len() {
            let read = &self.held.as_bytes()[..end];
            let ends = |(stop, _): &(&String, u16)| read.ends_with(stop.as_bytes());
            let complete = self.stops.iter().zip(0..).filter(ends);
            let longest = complete.max_by_key(|(stop, which)| (stop.len(), Reverse(*which)));
            let Some((stop, which)) = longest else {
                continue;
            };
            let cut = if include { 0 } else { stop.len() };
            let released = &self.held[..end - cut];
            if can_end(released) {
                let released = released.to_owned();
                self.held.clear();
                self.matched = true;
                self.which = which;
                return released;
            }
        }
        let begun = |stop: &String| self.held.len() - partial(&self.held, stop);
        let keep = self.stops.iter().map(begun).max().unwrap_or(0);
        let held = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, held)
    }

    /// Returns the held-back text at the end of the text.
    fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use graphmill_engine::testing::Harness;

    use super::{Matcher, StopString};
    use crate::payload::{GenerationParams, TextChunk, TextLogprob};

    /// A chunk of one token that begins where it says.
    fn chunk(text: &str, offset: usize) -> TextChunk {
        TextChunk {
            text: text.to_owned(),
            logprobs: vec![TextLogprob {
                offset,
                bytes: text.as_bytes().to_vec(),
                ..TextLogprob::default()
            }],
            ..TextChunk::default()
        }
    }

    #[test]
    fn log_probabilities_leave_with_the_text_in_which_their_tokens_begin() {
        let node = r#"node {
            calculator: "StopStringCalculator" input_stream: "TEXT:text" input_stream: "PARAMS:params" output_stream: "TEXT:out"
        }"#;
        let mut harness = Harness::for_calculator::<StopString>(node);
        let params = GenerationParams {
            stop: vec!["END".to_owned()],
            ..GenerationParams::default()
        };
        harness.push("params", 0, params).close("params");
        let pieces = [("é", 0), ("x E", 1), ("N", 4), ("o E", 5), ("ND of", 8)];
        for (time, (text, offset)) in (0..).zip(pieces) {
            harness.push("text", time, chunk(text, offset));
        }
        harness.finish();
        let packets = harness.packets("out");
        let chunks = packets
            .iter()
            .filter_map(|packet| packet.get::<TextChunk>());
        let left: Vec<(&str, Vec<usize>)> = chunks
            .map(|chunk| {
                let offsets = chunk.logprobs.iter().map(|logprob| logprob.offset);
                (chunk.text.as_str(), offsets.collect())
            })
            .collect();
        assert_eq!(
            left,
            [
                ("é", vec![0]),
                ("x ", vec![1]),
                ("ENo ", vec![4, 5]),
                ("", vec![])
            ]
        );
    }

    /// The text that comes out for text that comes in pieces.
    fn run<'a>(
        stops: &[String],
        include: bool,
        pieces: impl IntoIterator<Item = &'a str>,
    ) -> String {
        let mut matcher = Matcher::new(stops.into());
        let mut text = String::new();
        for piece in pieces {
            text.push_str(&matcher.push(piece, include, |_| true));
            if matcher.matched {
                return text;
            }
        }
        text + &matcher.finish()
    }

    /// The same by looking at every prefix of the whole text.
    fn expected(stops: &[String], include: bool, text: &str) -> String {
        for (end, c) in text.char_indices().map(|(at, c)| (at + c.len_utf8(), c)) {
            let _ = c;
            let longest = stops
                .iter()
                .filter(|stop| text[..end].ends_with(stop.as_str()))
                .map(String::len)
                .max();
            if let Some(len) = longest {
                return text[..if include { end } else { end - len }].to_owned();
            }
        }
        text.to_owned()
    }

    #[test]
    fn only_what_could_be_a_stop_string_is_held_back() {
        let mut matcher = Matcher::new(["END", "é!"].map(str::to_owned).into());
        assert_eq!(matcher.push("one E", false, |_| true), "one ");
        assert_eq!(matcher.push("N", false, |_| true), "");
        assert_eq!(matcher.push("E", false, |_| true), "EN");
        assert_eq!(matcher.push("xé", false, |_| true), "Ex");
        assert_eq!(matcher.push("?", false, |_| true), "é?");
        assert_eq!(matcher.push("E", false, |_| true), "");
        assert_eq!(matcher.push("ND of", false, |_| true), "");
        assert!(matcher.matched);
    }

    #[test]
    fn a_text_that_may_not_end_goes_on() {
        let mut matcher = Matcher::new(["aa", "b"].map(str::to_owned).into());
        let can_end = |text: &str| text.ends_with('c');
        assert_eq!(matcher.push("xaaa", false, can_end), "xaa");
        assert_eq!(matcher.push("bc", false, can_end), "abc");
        assert_eq!(matcher.push("bd", false, can_end), "bd");
        assert!(!matcher.matched);
        assert_eq!(matcher.push("cb", false, can_end), "c");
        assert!(matcher.matched);
    }

    #[test]
    fn a_stop_string_inside_another_ends_the_text_first() {
        let stops = ["abcd".to_owned(), "bc".to_owned()];
        assert_eq!(run(&stops, false, ["xab", "cd"]), "xa");
        assert_eq!(run(&stops, true, ["xab", "cd"]), "xabc");
    }

    proptest! {
        #[test]
        fn any_division_ends_at_the_same_place(
            text in "[abé]{0,30}",
            stops in prop::collection::vec("[abé]{1,4}", 1..4),
            include: bool,
            cuts in prop::collection::vec(1usize..4, 1..30),
        ) {
            let chars: Vec<char> = text.chars().collect();
            let mut pieces: Vec<String> = Vec::new();
            let mut rest = chars.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, remainder) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece.iter().collect());
                rest = remainder;
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(run(&stops, include, pieces), expected(&stops, include, &text));
        }
    }
}
