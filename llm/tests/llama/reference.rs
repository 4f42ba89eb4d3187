//! What llama.cpp itself says about images and sounds: one prompt, computed chunk by chunk as
//! libmtmd's helper does it, and then token by token.

use std::mem::ManuallyDrop;
use std::num::NonZero;
use std::path::Path;

use graphmill_llm::{DecodedMedium, Token, TokenLogprob};
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::mtmd::{MtmdBitmap, MtmdContext, MtmdContextParams, MtmdInputText};
use llama_cpp_2::token::LlamaToken;

/// Cells, and tokens of a batch.
const CONTEXT: u32 = 512;

/// A model and its projector, without an engine.
pub(crate) struct Reference {
    model: LlamaModel,
    projector: MtmdContext,
    backend: ManuallyDrop<LlamaBackend>,
}

impl Reference {
    /// To be called after an engine was loaded, which has initialized llama.cpp.
    pub(crate) fn load(model: &Path, projector: &Path) -> Self {
        let backend = ManuallyDrop::new(LlamaBackend {});
        let model = LlamaModel::load_from_file(&backend, model, &LlamaModelParams::default());
        let model = model.expect("the model loads");
        let params = MtmdContextParams {
            use_gpu: false,
            n_threads: 2,
            ..MtmdContextParams::default()
        };
        let path = projector.to_str().expect("a plain path");
        let projector = MtmdContext::init_from_file(path, &model, &params);
        Self {
            projector: projector.expect("the projector loads"),
            model,
            backend,
        }
    }

    /// The likeliest tokens after a text in which each `<__media__>` stands for one of the media.
    pub(crate) fn answer(
        &mut self,
        text: String,
        media: &[DecodedMedium],
        tokens: usize,
    ) -> Vec<TokenLogprob> {
        let params = LlamaContextParams::default()
            .with_n_ctx(NonZero::new(CONTEXT))
            .with_n_batch(CONTEXT)
            .with_n_ubatch(CONTEXT);
        let context = self.model.new_context(&self.backend, params);
        let mut context = context.expect("a context");
        let bitmap = |medium: &DecodedMedium| {
            let bitmap = match medium {
                DecodedMedium::Image(it) => {
                    MtmdBitmap::from_image_data(it.width(), it.height(), it.rgb())
                }
                DecodedMedium::Sound(sound) => MtmdBitmap::from_audio_data(sound.samples()),
            };
            bitmap.expect("as many as it says")
        };
        let bitmaps: Vec<_> = media.iter().map(bitmap).collect();
        let bitmaps: Vec<_> = bitmaps.iter().collect();
        let text = MtmdInputText {
            text,
            add_special: true,
            parse_special: true,
        };
        let chunks = self.projector.tokenize(text, &bitmaps);
        let chunks = chunks.expect("as many media as markers");
        let past = chunks.eval_chunks(
            &mut self.projector,
            &mut context,
            0,
            0,
            CONTEXT as i32,
            true,
        );
        let mut position = past.expect("the chunks are computed");
        let mut answer = Vec::new();
        let mut row = -1;
        while answer.len() < tokens {
            let chosen = likeliest(context.get_logits_ith(row));
            let mut batch = LlamaBatch::new(1, 1);
            let token = LlamaToken(chosen.token);
            batch.add(token, position, &[0], true).expect("room");
            context.decode(&mut batch).expect("computed");
            answer.push(chosen);
            position += 1;
            row = 0;
        }
        answer
    }
}

fn likeliest(logits: &[f32]) -> TokenLogprob {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let mut all: Vec<(Token, f32)> = (0..)
        .zip(logits)
        .map(|(token, logit)| (token, logit - largest - sum.ln()))
        .collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all.truncate(2);
    TokenLogprob {
        rank: None,
        token: all[0].0,
        logprob: all[0].1,
        top: all,
    }
}
