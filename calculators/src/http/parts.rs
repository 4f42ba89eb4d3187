//! Parts of an answer with one choice, in dialects whose answers consist of parts: reasoning, text
//! and tool calls, in order.

use std::mem::discriminant;

use crate::payload::{Finish, TextChunk, TextRequest};
use graphmill_llm::Usage;

/// A part of an answer: reasoning, text, or a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Reasoning(String),
    Text(String),
    Call {
        id: String,
        name: String,
        /// Arguments as JSON, as far as they have come.
        arguments: String,
    },
}

impl Segment {
    /// Returns the text of the part so far.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Reasoning(text) | Self::Text(text) => text,
            Self::Call { arguments, .. } => arguments,
        }
    }

    fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Reasoning(text) | Self::Text(text) => text,
            Self::Call { arguments, .. } => arguments,
        }
    }
}

/// A change of a part by a chunk. The number is that of the part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A part begins and is empty.
    Begin(usize),
    /// A part grows by a text.
    Grow(usize, String),
    /// A part has ended: text after it begins another one.
    End(usize),
}

impl Step {
    /// Returns the number of the part.
    pub(super) fn part(&self) -> usize {
        let (Self::Begin(part) | Self::Grow(part, _) | Self::End(part)) = self;
        *part
    }
}

/// The parts of an answer, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Parts {
    list: Vec<Segment>,
    /// True if the last part can still grow.
    open: bool,
    /// Number of the call in the last part; `None` for other parts.
    call: Option<u32>,
    /// Token counts of the answer so far.
    usage: Usage,
    /// Number of generated tokens in the chunks so far.
    generated: u32,
    reasoning_tokens: u32,
    finish: Option<Finish>,
}

impl Parts {
    /// Adds a chunk and returns the changes. `usage` counts the tokens of the answer.
    pub(super) fn take(&mut self, chunk: &TextChunk, usage: &Usage) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.finish.is_some() {
            return steps;
        }
        let generated = chunk.usage.generated_tokens;
        let before = std::mem::replace(&mut self.generated, generated);
        if !chunk.reasoning.is_empty() && chunk.text.is_empty() && chunk.tool_calls.is_empty() {
            self.reasoning_tokens += generated.saturating_sub(before);
        }
        self.usage = *usage;
        let reasoning = (&chunk.reasoning, Segment::Reasoning(String::new()));
        for (text, part) in [reasoning, (&chunk.text, Segment::Text(String::new()))] {
            if text.is_empty() {
                continue;
            }
            let last = self.list.last().filter(|_| self.open);
            if last.map(discriminant) != Some(discriminant(&part)) {
                self.begin(part, &mut steps);
            }
            self.grow(text, &mut steps);
        }
        for delta in &chunk.tool_calls {
            if let Some(start) = &delta.start {
                let call = Segment::Call {
                    id: start.id.to_string(),
                    name: start.name.clone(),
                    arguments: String::new(),
                };
                self.begin(call, &mut steps);
                self.call = Some(delta.index);
            }
            if self.call == Some(delta.index) && !delta.arguments.is_empty() {
                self.grow(&delta.arguments, &mut steps);
            }
        }
        if chunk.finish.is_some() {
            self.finish = chunk.finish;
            self.end(&mut steps);
        }
        steps
    }

    fn begin(&mut self, part: Segment, steps: &mut Vec<Step>) {
        self.end(steps);
        steps.push(Step::Begin(self.list.len()));
        self.list.push(part);
        self.open = true;
        self.call = None;
    }

    fn grow(&mut self, text: &str, steps: &mut Vec<Step>) {
        if let Some(part) = self.list.last_mut() {
            part.text_mut().push_str(text);
            steps.push(Step::Grow(self.list.len() - 1, text.to_owned()));
        }
    }

    fn end(&mut self, steps: &mut Vec<Step>) {
        if std::mem::take(&mut self.open) {
            steps.push(Step::End(self.list.len() - 1));
        }
    }

    /// Returns the answer, as far as it has come.
    pub(super) fn answer<'a>(&'a self, request: &'a TextRequest) -> PartialAnswer<'a> {
        PartialAnswer {
            request,
            parts: &self.list,
            usage: self.usage,
            reasoning_tokens: self.reasoning_tokens,
            finish: self.finish,
        }
    }
}

/// An answer, which is complete once it has a finish.
#[derive(Copy, Clone, Debug)]
pub(super) struct PartialAnswer<'a> {
    pub(super) request: &'a TextRequest,
    pub(super) parts: &'a [Segment],
    pub(super) usage: Usage,
    pub(super) reasoning_tokens: u32,
    pub(super) finish: Option<Finish>,
}

impl PartialAnswer<'_> {
    /// Returns the part of the request's id that the ids of parts repeat.
    pub(super) fn number(&self) -> &str {
        let id = &*self.request.id;
        id.split_once(['_', '-']).map_or(id, |(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::payload::{StopSignal, ToolCallDelta, ToolCallStart};

    fn chunk(reasoning: &str, text: &str, calls: &[(u32, bool, &str)], end: bool) -> TextChunk {
        TextChunk {
            prompt: graphmill_engine::Timestamp::ZERO,
            index: 0,
            text: text.to_owned(),
            reasoning: reasoning.to_owned(),
            tool_calls: calls
                .iter()
                .map(|(index, starts, arguments)| ToolCallDelta {
                    index: *index,
                    start: starts.then(|| ToolCallStart {
                        id: Arc::from(format!("call_{index}")),
                        name: "f".to_owned(),
                    }),
                    arguments: (*arguments).to_owned(),
                })
                .collect(),
            echo: None,
            ids: Vec::new(),
            logprobs: Vec::new(),
            finish: end.then_some(Finish::Stop),
            usage: Usage::default(),
            stop: StopSignal::default(),
        }
    }

    #[test]
    fn each_part_begins_grows_and_ends_once() {
        let mut parts = Parts::default();
        let chunks = [
            chunk("I ", "", &[], false),
            chunk("think", "so", &[], false),
            chunk("", "", &[(0, true, "{")], false),
            chunk("", "", &[(0, false, "}"), (1, true, "{}")], true),
        ];
        let steps: Vec<Step> = chunks
            .iter()
            .flat_map(|chunk| parts.take(chunk, &chunk.usage))
            .collect();
        let grow = |part, text: &str| Step::Grow(part, text.to_owned());
        assert_eq!(
            steps,
            [
                Step::Begin(0),
                grow(0, "I "),
                grow(0, "think"),
                Step::End(0),
                Step::Begin(1),
                grow(1, "so"),
                Step::End(1),
                Step::Begin(2),
                grow(2, "{"),
                grow(2, "}"),
                Step::End(2),
                Step::Begin(3),
                grow(3, "{}"),
                Step::End(3),
            ]
        );
        let texts: Vec<&str> = parts.list.iter().map(Segment::text).collect();
        assert_eq!(texts, ["I think", "so", "{}", "{}"]);
        assert!(
            parts
                .take(&chunk("", "late", &[], false), &Usage::default())
                .is_empty()
        );
    }
}
