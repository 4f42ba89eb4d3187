//! Images in prompts, with the repository's small model and a projector with random weights: what it
//! makes of an image is nonsense, and the same nonsense each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use graphmill_llm::{
    Bitmap, LlmEngine, LlmEngineSpec, LoadError, Medium, PlacedTile, PluginConfig, Sound,
    SubmitError, Token, VisionSpec,
};
use graphmill_testkit::projector::{Kind, MODEL_WIDTH, POSITIONS, make};

use crate::llama::support::{Generation, MESSAGES, chat, model, tokenize};

const PATIENCE: Duration = Duration::from_mins(2);
/// How large embeddings are, so that they change the answers.
pub(crate) const SIZE: f32 = 4.0;

struct Models(tempfile::TempDir);

impl Models {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        make(folder.path(), Kind::Square, MODEL_WIDTH, SIZE);
        Self(folder)
    }

    fn projector(&self) -> PathBuf {
        self.0.path().join("mmproj.gguf")
    }

    fn engine(&self, kv_unified: bool, prefix_caching: bool) -> LlmEngine {
        let spec = LlmEngineSpec {
            max_num_batched_tokens: 40,
            max_num_seqs: 8,
            cache_size: 1,
            max_context: Some(512),
            prefix_caching,
            vision: Some(VisionSpec::new(self.projector())),
            plugin_config: PluginConfig {
                kv_unified: Some(kv_unified),
                ..PluginConfig::default()
            },
            ..LlmEngineSpec::new(model())
        };
        LlmEngine::load(spec).expect("model and projector load")
    }
}

/// A picture that has some number in it, and a size of its own.
pub(crate) fn picture(number: u8) -> (Vec<u8>, Bitmap) {
    let width = 40 + 24 * (u32::from(number) % 3);
    let height = 30 + 24 * (u32::from(number) % 2);
    let byte = |index: usize| (index * (usize::from(number) * 7 + 3) / 11) as u8;
    let rgb = (0..width as usize * height as usize * 3)
        .map(byte)
        .collect();
    let bitmap = Bitmap::new(width, height, rgb).expect("as many as it says");
    (vec![number; 8], bitmap)
}

/// A sound that has some number in it.
pub(crate) fn sound(number: u8) -> (Vec<u8>, Sound) {
    let step = (f32::from(number) + 1.0) * 0.07;
    let samples = (0..8_000).map(|at| (at as f32 * step).sin() / 2.0);
    let sound = Sound::new(samples.collect()).expect("whole and finite");
    (vec![number; 8], sound)
}

/// A picture, or a sound if that is what the engine reads.
fn medium(engine: &LlmEngine, number: u8) -> Arc<Medium> {
    let vision = engine.vision().expect("it reads more than text");
    let medium = if vision.reads_images() {
        let (file, bitmap) = picture(number);
        vision.image("", &file, || Ok(bitmap), |message| message)
    } else {
        let (file, sound) = sound(number);
        vision.sound("", &file, || Ok(sound), |message| message)
    };
    medium.expect("it is prepared")
}

/// A question about pictures or sounds: a prompt and the tiles in it, encoded.
pub(crate) fn question(
    engine: &LlmEngine,
    pictures: &[u8],
    message: &str,
) -> (Vec<Token>, Arc<[PlacedTile]>) {
    let mut prompt = tokenize(engine, "<|im_start|>user\n");
    let mut tiles = Vec::new();
    for number in pictures {
        medium(engine, *number).append_to(&mut prompt, &mut tiles);
    }
    let rest = format!("{message}<|im_end|>\n<|im_start|>assistant\n");
    prompt.extend(tokenize(engine, &rest));
    encode(engine, &tiles);
    (prompt, tiles.into())
}

fn encode(engine: &LlmEngine, tiles: &[PlacedTile]) {
    let tiles = tiles.iter().map(|tile| Arc::clone(tile.tile())).collect();
    let (sender, encoded) = mpsc::channel();
    let vision = engine.vision().expect("it reads images");
    let encoding = vision.encode(tiles, move |result| {
        sender.send(result).expect("waited for");
    });
    let _encoding = encoding.expect("there is room");
    let result = encoded.recv_timeout(PATIENCE).expect("an answer");
    result.expect("the images are encoded");
}

fn start(engine: &LlmEngine, pictures: &[u8], message: &str) -> Generation {
    let (prompt, tiles) = question(engine, pictures, message);
    Generation::start(engine, prompt, |request| {
        request.tiles = tiles;
        request.max_tokens = Some(24);
        request.ignore_eos = true;
    })
}

fn start_text(engine: &LlmEngine, message: &str) -> Generation {
    Generation::start(engine, chat(engine, message), |request| {
        request.max_tokens = Some(24);
        request.ignore_eos = true;
    })
}

#[test]
fn an_image_is_the_same_each_time_and_unlike_another() {
    let models = Models::new();
    for unified in [true, false] {
        let (plain, sharing) = (models.engine(unified, false), models.engine(unified, true));
        let mut answers = Vec::new();
        for number in [1, 2] {
            let expected = start(&plain, &[number], "What is this?").finish();
            let length = expected.usage.prompt_tokens;
            assert!(u64::from(length) > POSITIONS);
            assert_eq!(expected.usage.cached_tokens, 0);
            let first = start(&sharing, &[number], "What is this?").finish();
            assert_eq!(first.tokens, expected.tokens, "unified: {unified}");
            let again = start(&sharing, &[number], "What is this?").finish();
            assert_eq!(again.tokens, expected.tokens, "unified: {unified}");
            assert_eq!(again.usage.cached_tokens, length - 1);
            // The image and what is before it are shared, whatever is asked.
            let other = start(&sharing, &[number], "Hello!").finish();
            let before = tokenize(&plain, "<|im_start|>user\n").len() as u64;
            assert_eq!(u64::from(other.usage.cached_tokens), before + POSITIONS);
            let expected_other = start(&plain, &[number], "Hello!").finish();
            assert_eq!(other.tokens, expected_other.tokens, "unified: {unified}");
            answers.push(expected.tokens);
        }
        assert_ne!(answers[0], answers[1], "unified: {unified}");
        let status = sharing.status();
        assert_eq!(status.images.encoded, 2);
        assert_eq!((status.images.queries, status.images.hits), (6, 4));
        assert_eq!(status.images.kept, 2);
        assert_eq!(status.kv_cells_used, 0);
    }
}

#[test]
fn several_images_are_computed_where_they_are() {
    let models = Models::new();
    let (plain, sharing) = (models.engine(true, false), models.engine(true, true));
    let ask = |engine: &LlmEngine, pictures: &[u8]| {
        start(engine, pictures, "What is this?").finish().tokens
    };
    let orders: [&[u8]; 5] = [&[1, 2], &[2, 1], &[1, 1], &[1, 2, 3], &[1]];
    let expected: Vec<_> = orders.iter().map(|order| ask(&plain, order)).collect();
    for _ in 0..2 {
        for (order, expected) in orders.iter().zip(&expected) {
            assert_eq!(ask(&sharing, order), *expected, "{order:?}");
        }
    }
    assert_ne!(expected[0], expected[1]);
}

#[test]
fn images_in_a_crowd_change_nobody_else() {
    let models = Models::new();
    for unified in [true, false] {
        let engine = models.engine(unified, true);
        let alone = models.engine(unified, false);
        let texts: Vec<_> = MESSAGES
            .iter()
            .map(|message| start_text(&engine, message))
            .collect();
        let images: Vec<_> = (0..4)
            .map(|number| start(&engine, &[number], MESSAGES[usize::from(number)]))
            .collect();
        for (text, message) in texts.into_iter().zip(MESSAGES) {
            let expected = start_text(&alone, message).finish();
            assert_eq!(text.finish().tokens, expected.tokens, "{unified} {message}");
        }
        for (image, number) in images.into_iter().zip(0..) {
            let expected = start(&alone, &[number], MESSAGES[usize::from(number)]).finish();
            assert_eq!(image.finish().tokens, expected.tokens, "{unified} {number}");
        }
    }
}

#[test]
fn a_request_with_images_can_be_cancelled() {
    let models = Models::new();
    let engine = models.engine(true, false);
    let expected = start_text(&engine, "Hello!").finish().tokens;
    for pictures in [&[1_u8][..], &[1, 2, 3]] {
        let running = start(&engine, pictures, "Tell me a story.");
        running.next();
        let waiting = start(&engine, pictures, "Tell me a story.");
        drop(waiting);
        drop(running);
        assert_eq!(start_text(&engine, "Hello!").finish().tokens, expected);
    }
    // What was asked after them came after their end.
    assert_eq!(engine.status().kv_cells_used, 0);
}

#[test]
fn nothing_is_encoded_for_who_does_not_wait() {
    let models = Models::new();
    let engine = models.engine(true, false);
    let vision = engine.vision().expect("it reads images");
    let tiles = |number| {
        let mut tiles = Vec::new();
        medium(&engine, number).append_to(&mut Vec::new(), &mut tiles);
        let tiles = tiles.iter().map(|tile| Arc::clone(tile.tile()));
        tiles.collect::<Vec<_>>()
    };
    let (go_on, may_go_on) = mpsc::channel();
    let first = vision.encode(tiles(1), move |_| {
        may_go_on.recv_timeout(PATIENCE).expect("told");
    });
    let first = first.expect("there is room");
    let dropped = vision.encode(tiles(2), |_| panic!("nobody waits"));
    drop(dropped.expect("there is room"));
    go_on.send(()).expect("waited for");
    let (sender, encoded) = mpsc::channel();
    let last = vision.encode(tiles(3), move |result| {
        sender.send(result).expect("waited for");
    });
    let last = last.expect("there is room");
    assert_eq!(encoded.recv_timeout(PATIENCE), Ok(Ok(())));
    assert!(!tiles(2)[0].is_encoded());
    assert_eq!(engine.status().images.encoded, 2);
    drop((first, last));
}

#[test]
fn prompts_that_have_no_sense_are_refused() {
    let models = Models::new();
    let engine = models.engine(true, false);
    let (prompt, tiles) = question(&engine, &[1], "What is this?");
    let refusal = |prompt: &[Token], tiles: &[PlacedTile]| {
        let refused = engine.check_prompt(prompt, tiles, None);
        refused.expect_err("refused")
    };
    let at = prompt
        .iter()
        .position(|token| *token < 0)
        .expect("an image");
    let without = refusal(&prompt, &[]);
    assert!(matches!(without, SubmitError::InvalidToken { position, .. } if position == at));
    let end = at + POSITIONS as usize;
    assert_eq!(refusal(&prompt[..end], &tiles), SubmitError::EndsWithMedium);
    let cut = refusal(&prompt[..end - 1], &tiles);
    assert!(matches!(cut, SubmitError::InvalidToken { .. }), "{cut}");
    let twice = refusal(&prompt, &[tiles[0].clone(), tiles[0].clone()]);
    assert!(matches!(twice, SubmitError::InvalidToken { .. }), "{twice}");
    let mut torn = prompt.clone();
    torn[at + 1] = prompt[0];
    let torn = refusal(&torn, &tiles);
    assert!(matches!(torn, SubmitError::InvalidToken { position, .. } if position == at + 1));
}

fn load_with(projector: &Path) -> Result<LlmEngine, LoadError> {
    LlmEngine::load(LlmEngineSpec {
        cache_size: 1,
        max_context: Some(256),
        vision: Some(VisionSpec::new(projector)),
        ..LlmEngineSpec::new(model())
    })
}

#[test]
fn a_projector_that_does_not_fit_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refusal = |projector: &Path| {
        let refused = load_with(projector).map(|_| ()).expect_err("refused");
        let message = refused.to_string();
        assert!(message.contains(&*projector.to_string_lossy()), "{message}");
        message
    };
    let wide = make(folder.path(), Kind::Square, 2 * MODEL_WIDTH, SIZE);
    let message = refusal(&wide);
    assert!(message.contains("n_embd = 384"), "{message}");
    let message = refusal(&model());
    assert!(message.contains("cannot load model"), "{message}");
    let whole = fs::read(&wide).expect("readable");
    for length in [0, 100, whole.len() / 2] {
        let cut = folder.path().join("cut.gguf");
        fs::write(&cut, &whole[..length]).expect("a file in it");
        refusal(&cut);
    }
    let missing = refusal(&folder.path().join("nowhere.gguf"));
    assert!(missing.starts_with("cannot read"), "{missing}");
}
