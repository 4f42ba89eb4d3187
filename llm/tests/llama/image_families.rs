//! Images in models that count them by lines and columns (M-RoPE), in those whose images look ahead,
//! and sounds: answers are those of llama.cpp itself, alone, in a crowd, shared, after cancellations
//! and where sequences lose their places.

use std::path::PathBuf;

use graphmill_llm::{
    DecodedMedium, LlmEngine, LlmEngineSpec, PluginConfig, RequestId, SamplingParams, TokenLogprob,
    Usage, VisionSpec,
};
use graphmill_testkit::projector::{Kind, make};

use crate::llama::checkpoints::{Pair, play_any};
use crate::llama::families::{Family, WIDTH};
use crate::llama::images::{SIZE, picture, question, sound};
use crate::llama::reference::Reference;
use crate::llama::support::{Generation, same};

const TOKENS: u32 = 24;

/// Pictures, and what is asked about them.
const QUESTIONS: [(&[u8], &str); 7] = [
    (&[1], "What is this?"),
    (&[2], "What is this?"),
    (&[1, 2], "Hello!"),
    (&[2, 1], "Hello!"),
    (&[1, 1], "What is this?"),
    (&[4, 5, 3], "Tell me a story."),
    // So long that what is kept of it is cut into pieces, in the middle of a picture.
    (&[1, 2, 3, 4, 5, 1, 2], "What is this?"),
];

struct Models {
    _folder: tempfile::TempDir,
    model: PathBuf,
    projector: PathBuf,
}

impl Models {
    fn new(family: Family, kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self {
            model: family.make(folder.path()),
            projector: make(folder.path(), kind, WIDTH, SIZE),
            _folder: folder,
        }
    }

    fn engine(&self, layout: Layout, prefix_caching: bool) -> LlmEngine {
        let spec = LlmEngineSpec {
            max_num_batched_tokens: 40,
            max_num_seqs: 3,
            max_context: Some(512),
            prefix_caching,
            vision: Some(VisionSpec::new(&self.projector)),
            plugin_config: PluginConfig {
                kv_unified: Some(layout.unified),
                swa_full: Some(layout.whole_windows),
                ..PluginConfig::default()
            },
            ..LlmEngineSpec::new(&self.model)
        };
        LlmEngine::load(spec).expect("model and projector load")
    }
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    unified: bool,
    whole_windows: bool,
}

fn layouts(family: Family) -> Vec<Layout> {
    let whole = if family == Family::Window {
        &[true, false][..]
    } else {
        &[true]
    };
    let layouts = |unified| {
        whole.iter().map(move |whole_windows| Layout {
            unified,
            whole_windows: *whole_windows,
        })
    };
    [true, false].into_iter().flat_map(layouts).collect()
}

fn start(engine: &LlmEngine, (pictures, message): (&[u8], &str), of: RequestId) -> Generation {
    let (prompt, tiles) = question(engine, pictures, message);
    Generation::start(engine, prompt, |request| {
        request.request = of;
        request.tiles = tiles;
        request.max_tokens = Some(TOKENS);
        request.ignore_eos = true;
        request.sampling = SamplingParams {
            logprobs: Some(2),
            ..SamplingParams::greedy()
        };
    })
}

fn ask(engine: &LlmEngine, asked: (&[u8], &str)) -> (Vec<TokenLogprob>, Usage) {
    let answer = start(engine, asked, RequestId::new()).finish();
    (answer.logprobs, answer.usage)
}

fn expected(
    reference: &mut Reference,
    kind: Kind,
    (pictures, message): (&[u8], &str),
) -> Vec<TokenLogprob> {
    let markers = "<__media__>".repeat(pictures.len());
    let text = format!("<|im_start|>user\n{markers}{message}<|im_end|>\n<|im_start|>assistant\n");
    let decoded = |number: &u8| match kind {
        Kind::Sound => DecodedMedium::Sound(sound(*number).1),
        _ => DecodedMedium::Image(picture(*number).1),
    };
    let media: Vec<DecodedMedium> = pictures.iter().map(decoded).collect();
    reference.answer(text, &media, TOKENS as usize)
}

/// Log probabilities may differ by less than `tolerance`: batches decide in which order floats are
/// added.
fn check(family: Family, kind: Kind, tolerance: f32) {
    let models = Models::new(family, kind);
    let mut answers = Vec::new();
    for layout in layouts(family) {
        let (plain, sharing) = (models.engine(layout, false), models.engine(layout, true));
        if answers.is_empty() {
            let mut reference = Reference::load(&models.model, &models.projector);
            answers.extend(QUESTIONS.map(|asked| expected(&mut reference, kind, asked)));
            let first = |answer: &Vec<TokenLogprob>| answer[0].clone();
            assert_ne!(first(&answers[0]), first(&answers[1]), "pictures matter");
        }
        let agree = |answer: &[TokenLogprob], index: usize, how: &str| {
            let what = format!("{family:?}, {layout:?}, {how}: {:?}", QUESTIONS[index]);
            same(&answers[index], answer, tolerance, true, &what);
        };
        for (index, asked) in QUESTIONS.into_iter().enumerate() {
            agree(&ask(&plain, asked).0, index, "alone");
        }
        let mut shared = 0;
        for how in ["shared", "shared again"] {
            for (index, asked) in QUESTIONS.into_iter().enumerate() {
                let (answer, usage) = ask(&sharing, asked);
                agree(&answer, index, how);
                shared += usage.cached_tokens;
            }
        }
        assert!(shared > 0, "{family:?}, {layout:?}");
        for engine in [&plain, &sharing] {
            crowd(engine, &agree);
            cancel(engine);
            crowd(engine, &agree);
        }
        preempt(&sharing, &agree);
        let status = sharing.status();
        assert!(status.preemptions > 0, "{family:?}, {layout:?}");
        for status in [status, plain.status()] {
            assert_eq!(status.failed_steps, 0, "{family:?}, {layout:?}");
            assert_eq!(status.kv_cells_used, 0, "{family:?}, {layout:?}");
        }
    }
}

/// Asks everything at once: sequences share, copy and wait for each other.
fn crowd(engine: &LlmEngine, agree: &dyn Fn(&[TokenLogprob], usize, &str)) {
    let ask = |asked| start(engine, asked, RequestId::new());
    let running: Vec<_> = QUESTIONS.into_iter().map(ask).collect();
    for (index, generation) in running.into_iter().enumerate() {
        agree(&generation.finish().logprobs, index, "in a crowd");
    }
}

/// Leaves some after their first token, and others wherever they are.
fn cancel(engine: &LlmEngine) {
    let ask = |asked| start(engine, asked, RequestId::new());
    let running: Vec<_> = QUESTIONS.into_iter().map(ask).collect();
    running[0].next();
    drop(running);
    for asked in QUESTIONS {
        drop(start(engine, asked, RequestId::new()));
    }
}

/// Three sequences of one request have all places, and others take them.
fn preempt(engine: &LlmEngine, agree: &dyn Fn(&[TokenLogprob], usize, &str)) {
    for first in 0..3 {
        let (of_three, all) = (RequestId::new(), first..first + 3);
        let ask = |index| start(engine, QUESTIONS[index], of_three);
        let running: Vec<_> = all.clone().map(ask).collect();
        let begun: Vec<_> = running.iter().map(|one| one.next().logprobs).collect();
        let (answer, _) = crate::llama::image_families::ask(engine, QUESTIONS[5]);
        agree(&answer, 5, "in a place of another");
        for ((index, generation), begun) in all.zip(running).zip(begun) {
            let answer = [begun, generation.finish().logprobs].concat();
            agree(&answer, index, "after others had its place");
        }
    }
}

#[test]
fn images_in_lines_and_columns_are_read_as_llama_cpp_reads_them() {
    check(Family::Image, Kind::Grid, 0.05);
}

#[test]
fn images_in_lines_and_columns_go_on_from_checkpoints() {
    check(Family::ImageHybrid, Kind::Grid, 0.05);
}

#[test]
fn images_that_look_ahead_are_read_as_llama_cpp_reads_them() {
    // Without looking ahead, they differ by more than this.
    check(Family::Window, Kind::Ahead, 0.02);
}

#[test]
fn sounds_are_read_as_llama_cpp_reads_them() {
    check(Family::Window, Kind::Sound, 0.05);
}

#[test]
fn sounds_are_counted_as_tokens_where_images_are_in_lines_and_columns() {
    check(Family::Image, Kind::Sound, 0.05);
}

#[test]
fn an_image_that_no_step_has_room_for_is_refused() {
    let models = Models::new(Family::Window, Kind::Ahead);
    let spec = LlmEngineSpec {
        max_num_batched_tokens: 15,
        max_num_seqs: 2,
        max_context: Some(256),
        vision: Some(VisionSpec::new(&models.projector)),
        ..LlmEngineSpec::new(&models.model)
    };
    let engine = LlmEngine::load(spec).expect("model and projector load");
    let (file, bitmap) = picture(1);
    let vision = engine.vision().expect("it reads images");
    let refused = vision.image("", &file, || Ok(bitmap), |message| message);
    let message = refused.expect_err("refused");
    assert!(
        message.contains("its 16 positions must be computed at once"),
        "{message}"
    );
}

#[test]
fn any_workload_of_texts_gives_the_answers_of_an_engine_without_sharing() {
    for unified in [true, false] {
        for drafts in [false, true] {
            let pair = Pair::load(Family::Image, unified, true, drafts);
            play_any(&pair, &format!("unified: {unified}, drafts: {drafts}"));
        }
    }
}
