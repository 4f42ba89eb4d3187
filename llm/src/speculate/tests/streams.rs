//! Streams that draft from their texts, played step by step on machines whose time is simple: none
//! is slower than without drafts.

use super::super::{Drafting, Drafts, ModelDraft, Speculation};
use super::noise;
use crate::backend::{
    Backend, BatchToken, Capacity, DecodeError, DraftSupport, KvLayout, Reuse, Slot,
};
use crate::protocol::SpeculationParams;
use crate::protocol::{SequenceId, Token};
use crate::schedule::cost::{CostModel, StepSize};

/// What a step takes: a part that does not depend on its rows, and one for each row.
#[derive(Clone, Copy, Debug)]
struct Machine {
    step: f64,
    row: f64,
}

/// Eight rows take 1.2 and 3 times as long as one.
const MACHINES: [Machine; 2] = [
    Machine {
        step: 34.0,
        row: 1.0,
    },
    Machine {
        step: 2.5,
        row: 1.0,
    },
];

/// The model, as far as drafts ask for it.
struct Model(DraftSupport);

impl Backend for Model {
    fn capacity(&self) -> Capacity {
        Capacity {
            total_cells: 0,
            cells_per_sequence: 0,
            max_sequences: 0,
            max_batch_tokens: 0,
            embedding_width: None,
            vector_width: None,
            layout: KvLayout::Unified,
            reuse: Reuse::Never,
            host_cache_bytes: 0,
        }
    }

    fn n_vocab(&self) -> usize {
        0
    }

    fn draft_support(&self) -> DraftSupport {
        self.0
    }

    fn decode(&mut self, _: &[BatchToken]) -> Result<(), DecodeError> {
        Ok(())
    }

    fn logits(&self) -> &[f32] {
        &[]
    }

    fn remove(&mut self, _: Slot, _: u32) {}

    fn remove_before(&mut self, _: Slot, _: u32) {}

    fn share(&mut self, _: Slot, _: Slot, _: u32) {}

    fn clear(&mut self) {}
}

/// A prompt, and what the model says after it.
type Text = (Vec<Token>, Vec<Token>);

struct Stream {
    id: SequenceId,
    tokens: Vec<Token>,
    whole: Vec<Token>,
    speculation: Option<Speculation>,
}

impl Stream {
    fn new(number: usize, (prompt, answer): &Text, drafts: bool) -> Self {
        let params = SpeculationParams::default();
        Self {
            id: SequenceId(number as u64),
            tokens: prompt.clone(),
            whole: [&prompt[..], answer].concat(),
            speculation: drafts.then(|| Speculation::new(params, prompt)),
        }
    }

    /// Takes the drafts that are right, and the token after them.
    fn advance(&mut self) {
        let before = self.tokens.len();
        let rest = &self.whole[before..];
        let pairs = self.drafts().iter().zip(rest);
        let right = pairs.take_while(|(draft, token)| draft == token).count();
        for index in before..=before + right {
            self.tokens.push(self.whole[index]);
            if let Some(speculation) = &mut self.speculation {
                speculation.observe(&self.tokens);
            }
        }
        if let Some(speculation) = &mut self.speculation {
            speculation.settle(&self.tokens[before..]);
        }
    }
}

impl Drafting for Stream {
    fn id(&self) -> SequenceId {
        self.id
    }

    fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    fn remaining(&self) -> u32 {
        (self.whole.len() - self.tokens.len()) as u32
    }

    fn has_credit(&self) -> bool {
        true
    }

    fn decodes(&self) -> bool {
        true
    }

    fn draft(&mut self) {
        let limit = self.remaining() - 1;
        if let Some(speculation) = &mut self.speculation {
            speculation.draft(&self.tokens, limit);
        }
    }

    fn model_draft(&self) -> Option<ModelDraft> {
        None
    }

    fn push_draft(&mut self, _: Token, _: f32) {}

    fn cut_drafts(&mut self) {}

    fn keep_drafts(&mut self, count: usize) {
        if let Some(speculation) = &mut self.speculation {
            speculation.keep(count);
        }
    }

    fn drafts(&self) -> &[Token] {
        self.speculation.as_ref().map_or(&[], Speculation::drafts)
    }

    fn draft_chances(&self) -> &[f32] {
        self.speculation.as_ref().map_or(&[], Speculation::chances)
    }
}

/// Tokens for the time that so many streams at once take, until no text is left to begin.
fn rate(
    texts: &[Text],
    streams: usize,
    machine: Machine,
    support: DraftSupport,
    drafts: bool,
) -> f64 {
    let mut all = Drafts::new(&Model(support), None, true);
    let mut cost = CostModel::default();
    let mut waiting = texts.iter().enumerate();
    let mut running: Vec<Stream> = Vec::new();
    let (mut time, mut tokens, mut steps) = (0.0, 0, 0);
    loop {
        // They begin one after the other, as prompts take time.
        while running.len() < streams && steps >= 4 * running.len() {
            match waiting.next() {
                Some((number, text)) => running.push(Stream::new(number, text, drafts)),
                None => return f64::from(tokens) / time,
            }
        }
        all.draft(&mut running, &cost, false);
        let lengths = running.iter().map(|stream| 1 + stream.drafts().len());
        let shortest = lengths.clone().min().expect("one runs");
        let passes = match support {
            DraftSupport::SameLength => {
                1 + lengths.clone().filter(|tokens| *tokens > shortest).count()
            }
            _ => 1,
        };
        let size = StepSize {
            decode_tokens: lengths.sum::<usize>() as u32,
            ..StepSize::default()
        };
        let took = machine.step * passes as f64 + machine.row * f64::from(size.decode_tokens);
        // Measured times scatter.
        let scatter = [0.98, 1.01, 1.0, 0.99, 1.02][steps % 5];
        cost.observe(&size, 1_000.0 * took * scatter);
        time += took;
        steps += 1;
        for stream in &mut running {
            let before = stream.tokens.len();
            stream.advance();
            tokens += (stream.tokens.len() - before) as u32;
        }
        running.retain(|stream| stream.remaining() > 0);
    }
}

/// Texts that are the prompt with some tokens changed: one of so many.
fn copies(one_of: usize) -> Vec<Text> {
    let text = |prompt: &[Token]| {
        let changed = |(index, token): (usize, &Token)| match (index + prompt[0] as usize) % one_of
        {
            0 => 5000 + index as Token,
            _ => *token,
        };
        let answer = prompt.iter().enumerate().map(changed).collect();
        (prompt.to_vec(), answer)
    };
    noise(48 * 300, 1000).chunks(300).map(text).collect()
}

/// Texts of so many different tokens, without a plan.
fn chance(below: i32) -> Vec<Text> {
    let texts = noise(48 * 350, below);
    let split = |text: &[Token]| (text[..50].to_vec(), text[50..].to_vec());
    texts.chunks(350).map(split).collect()
}

/// What drafts are worth in each case: tokens for the time, divided by those without.
fn gains(texts: &[Text]) -> Vec<(String, f64)> {
    let mut gains = Vec::new();
    for machine in MACHINES {
        for streams in [1, 4, 16] {
            for support in [DraftSupport::AnyLength, DraftSupport::SameLength] {
                let texts = &texts[..3 * streams.max(4)];
                let rate = |drafts| rate(texts, streams, machine, support, drafts);
                let what = format!("{streams} streams, {machine:?}, {support:?}");
                gains.push((what, rate(true) / rate(false)));
            }
        }
    }
    gains
}

#[test]
fn no_text_takes_longer_than_without_drafts() {
    let mut mixed = copies(40);
    for (index, text) in chance(10).into_iter().enumerate() {
        if index % 3 > 0 {
            mixed[index] = text;
        }
    }
    let texts = [
        ("one of 40 tokens is new", copies(40)),
        ("one of 4 tokens is new", copies(4)),
        ("10 tokens by chance", chance(10)),
        ("1000 tokens by chance", chance(1000)),
        ("copies and chance", mixed),
    ];
    for (name, texts) in texts {
        for (what, gain) in gains(&texts) {
            assert!(gain > 0.98, "{name}, {what}: {gain}");
        }
    }
}

#[test]
fn copies_are_drafted_on_all_machines_and_beside_others() {
    for (what, gain) in gains(&copies(40)) {
        let least = match what.split_whitespace().next() {
            Some("1") => 1.8,
            Some("4") => 1.05,
            _ => 1.0,
        };
        assert!(gain >= least, "{what}: {gain}");
    }
}
