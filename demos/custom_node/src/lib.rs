//! A node of one's own: it masks e-mail addresses in the text that a model generates.
use std::collections::HashMap;

use graphmill_calculators::payload::TextChunk;
use graphmill_engine::{Calculator, Contract, Cx, Flow, In, OpenCx, Out, Result, register};

/// Masks e-mail addresses. Holds the last word back for as long as it could become an address.
pub struct MaskEmails {
    mask: String,
    held: HashMap<u32, String>, // by choice: with `n: 2`, one stream carries two texts
}

/// Options of the node. `mask` is written in the place of each address.
#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MaskEmailsOptions {
    mask: String,
}

impl Calculator for MaskEmails {
    const NAME: &'static str = "MaskEmailsCalculator";
    type Options = MaskEmailsOptions;
    type Ports = (In<TextChunk>, Out<TextChunk>);

    fn contract(c: &mut Contract, _: &MaskEmailsOptions) -> Self::Ports {
        (c.input("TEXT"), c.output("TEXT"))
    }

    fn open(options: &MaskEmailsOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        let (mask, held) = (options.mask.clone(), HashMap::new());
        Ok(Self { mask, held })
    }

    fn process(&mut self, (input, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(mut chunk) = cx.take(input) {
            let text = self.held.remove(&chunk.index).unwrap_or_default() + &chunk.text;
            let words = text.trim_end_matches(|c| !ends_word(c)).len();
            let ready = chunk.finish.map_or(words, |_| text.len());
            self.held.insert(chunk.index, text[ready..].to_owned());
            let words = text[..ready].split_inclusive(ends_word);
            chunk.text = words.map(|word| masked(word, &self.mask)).collect();
            cx.emit(output, chunk);
        }
        Ok(Flow::Continue)
    }
}
register!(MaskEmails);

fn ends_word(c: char) -> bool {
    !c.is_ascii_alphanumeric() && !"@._%+-".contains(c)
}

fn masked(word: &str, mask: &str) -> String {
    let address = word.trim_end_matches(|c| ends_word(c) || c == '.');
    match address.split_once('@') {
        Some((user, host)) if !user.is_empty() && host.contains('.') => word.replace(address, mask),
        _ => word.to_owned(),
    }
}
