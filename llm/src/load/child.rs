//! The process that tries a model: it reads its task from standard input, and writes the verdict to
//! standard output.

use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::thread;

use super::open;
use super::trial::{Knowledge, Task, TrialOrder, VERDICT, Verdict};
use crate::backend::{self, Adapter, Adapters, Backend, BatchToken, Piece, Projector, Slot};
use crate::backend::{Bitmap, DecodedMedium, Sound, TILE_SECONDS};
use crate::model::vocab::{TOOL_TEMPLATE, Vocab};
use crate::protocol::{LoadError, Token};
use crate::settings::Number;

/// Text for the tokenizer: letters, numbers, spaces and characters that are rarely in a vocabulary.
const SAMPLE: &str = "Hello world 12\t\u{0}\u{7f}\r\n  Größe, 你好 \u{1f600}\u{200d}\u{fffd}";
/// Maximum number of its tokens that are computed.
const TOKENS: usize = 4;

/// Runs the trial that standard input describes and ends the process.
#[expect(
    clippy::print_stdout,
    reason = "the process that waits for this one reads it"
)]
pub(super) fn answer(knowledge: Knowledge) -> ! {
    let mut order = String::new();
    if io::stdin().lock().read_line(&mut order).is_err() {
        backend::exit(2);
    }
    let Ok(order) = serde_json::from_str::<TrialOrder>(&order) else {
        backend::exit(2);
    };
    // The other end stays open as long as the parent waits.
    thread::spawn(|| {
        io::stdin().lock().read_to_end(&mut Vec::new()).ok();
        backend::exit(3);
    });
    if let Some(memory) = order.memory {
        backend::limit_process(memory);
    }
    let verdict = match attempt(&order.task, knowledge) {
        Ok(()) => Verdict::Good,
        Err(LoadError::Model { path, message }) => Verdict::Refused { path, message },
        Err(_) => Verdict::Elsewhere,
    };
    let Ok(verdict) = serde_json::to_string(&verdict) else {
        backend::exit(2);
    };
    println!("\n{VERDICT}{verdict}");
    backend::exit(0)
}

fn attempt(task: &Task, knowledge: Knowledge) -> Result<(), LoadError> {
    let mut stepped = Ok(());
    match task {
        Task::Generates(spec) => open::open(spec, &mut |loaded| {
            try_templates(&*loaded.vocab, knowledge.try_template);
            let tokens = tokens(&*loaded.vocab);
            if let Some(backend) = loaded.draft {
                let draft = spec.draft.as_ref();
                let file = draft.map_or(&spec.model, |draft| &draft.model);
                stepped = attribute(file, step(backend, &tokens, Adapters::default()));
            }
            let without = (Adapters::default(), &spec.model);
            // A request may apply an adapter whose scale is 0 in the spec.
            let scale = Number::ONE;
            let adapters = (0..).zip(&spec.adapters).map(|(number, adapter)| {
                (Adapters::from(Adapter { number, scale }), &adapter.path)
            });
            for (adapters, file) in [without].into_iter().chain(adapters) {
                if stepped.is_ok() {
                    stepped = attribute(file, step(&mut *loaded.backend, &tokens, adapters));
                }
            }
            if let (Ok(()), Some(projector), Some(vision)) =
                (&stepped, &loaded.projector, &spec.vision)
            {
                stepped = attribute(&vision.mmproj, encode(&**projector));
            }
        })?,
        Task::Embeds(spec) => open::open_embedding(spec, &mut |loaded| {
            let mut tokens = tokens(&*loaded.vocab);
            tokens.truncate(loaded.backend.capacity().context_length as usize);
            let mut numbers = Vec::new();
            let computed = loaded.backend.compute(&[&tokens], &mut numbers);
            stepped = attribute(&spec.model, computed.and_then(|()| finite(&numbers)));
        })?,
        Task::Reads { format, path } => {
            let mut formats = knowledge.formats.iter();
            let found = formats.find(|(name, _)| name == format);
            stepped = found.map_or(Ok(()), |(_, try_file)| attribute(path, try_file(path)));
        }
    }
    stepped
}

/// Tries the chat templates of a model. Logs each before, because the last line shows why the
/// process ended.
fn try_templates(vocab: &dyn Vocab, try_template: fn(&str)) {
    for name in [None, Some(TOOL_TEMPLATE)] {
        if let Some(source) = vocab.chat_template(name) {
            // The parent reads it, or nobody does.
            writeln!(io::stderr(), "trying the model's chat template").ok();
            try_template(source);
        }
    }
}

fn attribute(model: &Path, stepped: Result<(), String>) -> Result<(), LoadError> {
    stepped.map_err(|message| LoadError::model(model, message))
}

/// Returns a few tokens of a prompt, at least one.
fn tokens(vocab: &dyn Vocab) -> Vec<Token> {
    let mut tokens = vocab.tokenize(SAMPLE, true, true).unwrap_or_default();
    tokens.retain(|token| vocab.contains(*token));
    tokens.truncate(TOKENS);
    if tokens.is_empty() {
        tokens.push(0);
    }
    tokens
}

/// Computes a prompt and one more token, and checks that the results are finite.
fn step(backend: &mut dyn Backend, tokens: &[Token], adapters: Adapters) -> Result<(), String> {
    let mut batch: Vec<BatchToken> = (0..)
        .zip(tokens.iter().chain(tokens.last()))
        .map(|(position, token)| BatchToken {
            token: *token,
            position,
            slot: Slot(0),
            logits: false,
            hidden: false,
            adapters,
        })
        .collect();
    for token in batch.iter_mut().rev().take(2) {
        token.logits = true;
    }
    let (prompt, next) = batch.split_at(tokens.len());
    for part in [prompt, next] {
        let computed = match backend.hidden_width() {
            0 => backend.decode(part),
            width => {
                let states = vec![1.0; part.len() * width];
                let encoded = backend.encode_hidden(&states).map(<[f32]>::to_vec);
                encoded.and_then(|encoded| backend.decode_with_hidden(part, &encoded))
            }
        };
        computed.map_err(|error| format!("it does not compute a step: {error}"))?;
        finite(backend.logits())?;
    }
    backend.remove(Slot(0), 0);
    Ok(())
}

/// Encodes a gray image, a tenth of a second of silence, and the longest possible tile of silence,
/// as far as the projector reads them. Only one tile of each shape is encoded.
fn encode(projector: &dyn Projector) -> Result<(), String> {
    const SIDE: u32 = 64;
    let mut media = Vec::new();
    if projector.reads_images() {
        let gray = Bitmap::new(SIDE, SIDE, vec![127; (SIDE * SIDE * 3) as usize]);
        media.extend(gray.map(DecodedMedium::Image));
    }
    if let Some(rate) = projector.sound_rate() {
        let second = rate.get() as usize;
        let sounds = [second / 10, second * TILE_SECONDS].map(Sound::silence);
        media.extend(sounds.map(DecodedMedium::Sound));
    }
    let mut shapes = Vec::new();
    for decoded in media {
        for piece in projector.prepare(&decoded)? {
            if let Piece::Tile(tile) = piece
                && !shapes.contains(&tile.shape())
            {
                shapes.push(tile.shape());
                finite(&tile.encode()?)?;
            }
        }
    }
    Ok(())
}

fn finite(numbers: &[f32]) -> Result<(), String> {
    if numbers.iter().any(|number| number.is_finite()) {
        Ok(())
    } else {
        let message = "its results are not a number (NaN): its weights or its metadata are damaged";
        Err(message.to_owned())
    }
}
