//! The resource behind the side packet `llm`: a model's batching engine, its vocabulary and its
//! chat template.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use graphmill_engine::{Error, FileSource, Kind, Resource, Result};
use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{
    BackendKind, Health, LlmEngine, LlmEngineSpec, SupervisedEngine, VisionSpec, Vocab,
    check_headers, projector_beside, resolve_model_path,
};

use super::faults::{
    DRAFT, MODEL, PROJECTOR, adapter_option, at_fault, not_loaded, unusable, unusable_part,
};
use super::formats::OutputFormats;
use super::generation_config::GenerationConfig;
use super::history::History;
use super::media::MediaLimits;
use super::model_spec::ModelSpec;
use super::{templates, turns};
use crate::text::chat_template::{ChatTemplate, TemplateError};

/// Name of the template that some models have for conversations with tools.
const TOOL_TEMPLATE: &str = "tool_use";

/// A loaded model. All sessions of all graphs with the same model and limits share one.
#[derive(Debug)]
pub struct LanguageModel {
    engine: SupervisedEngine<LlmEngine>,
    vocab: Arc<dyn Vocab>,
    history: Arc<History>,
    template: Option<Result<ChatTemplate, TemplateError>>,
    tool_template: Option<Result<ChatTemplate, TemplateError>>,
    formats: OutputFormats,
    generation: GenerationConfig,
    media: MediaLimits,
    max_input_tokens: u32,
}

impl LanguageModel {
    /// Creates a model that follows a script, for tests of graphs. It replaces the model of a spec
    /// and the files beside it, and has the spec's chat template, formats and limits.
    ///
    /// # Errors
    /// A number or the template of the script is not valid, or a template of the spec cannot be
    /// read.
    pub fn scripted(
        mut script: Script,
        spec: Option<&ModelSpec>,
        files: &dyn FileSource,
    ) -> Result<Self> {
        let model = PathBuf::from(format!("{}.script.json", script.name));
        let engine = match spec {
            None => LlmEngineSpec::new(model),
            Some(spec) => LlmEngineSpec {
                model,
                backend: BackendKind::Scripted,
                draft: None,
                vision: None,
                ..spec.engine.clone()
            },
        };
        let named = spec.and_then(|spec| spec.chat_template.as_deref());
        let template = match named {
            Some(path) => Ok(templates::named(&files.resolve(path), files)?),
            None => ChatTemplate::new(&script.chat_template),
        };
        if let (true, Ok(template)) = (script.turns.is_empty(), &template) {
            script.turns = turns::find(template);
            if script.turns.is_empty() {
                let message = "the chat template does not show where an answer begins: list the texts that begin one as `turns` of the script";
                return Err(Error::invalid(message));
            }
        }
        let open = {
            let spec = engine.clone();
            move || Ok(ScriptedBackend::new(script, &spec))
        };
        let engine =
            LlmEngine::with_backend(engine, open).and_then(SupervisedEngine::<LlmEngine>::once);
        let engine = engine.map_err(not_loaded)?;
        let generation = GenerationConfig::default();
        Self::new(engine, spec, [Some(template), None], generation)
    }

    /// Creates a model from its engine, its template, and that for conversations with tools.
    fn new(
        engine: SupervisedEngine<LlmEngine>,
        spec: Option<&ModelSpec>,
        [template, tool_template]: [Option<Result<ChatTemplate, TemplateError>>; 2],
        generation: GenerationConfig,
    ) -> Result<Self> {
        let vocab = engine.current().vocab();
        let taught = tool_template.as_ref().or(template.as_ref());
        let taught = taught.and_then(|template| template.as_ref().ok());
        let (tools, reasoning) =
            spec.map_or(("", ""), |spec| (&spec.tool_parser, &spec.reasoning_parser));
        let guided = spec.is_some_and(|spec| spec.guided_tool_calls);
        Ok(Self {
            generation,
            media: spec.map_or_else(MediaLimits::default, |spec| spec.media),
            max_input_tokens: spec.map_or(0, |spec| spec.max_input_tokens),
            formats: OutputFormats::new(tools, reasoning, taught, guided, &*vocab)?,
            template,
            tool_template,
            engine,
            vocab,
            history: History::new(),
        })
    }

    /// Returns the engine that batches this model's sequences. It is replaced after a failure.
    pub fn engine(&self) -> Arc<LlmEngine> {
        self.engine.current()
    }

    /// Returns the health of the engine.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Returns the model's vocabulary, which stays the same when the engine is replaced.
    pub fn vocab(&self) -> &Arc<dyn Vocab> {
        &self.vocab
    }

    /// Returns the sampling defaults of the model's makers.
    pub fn generation_config(&self) -> &GenerationConfig {
        &self.generation
    }

    /// Returns the formats of its tool calls and its reasoning.
    pub(crate) fn formats(&self) -> &OutputFormats {
        &self.formats
    }

    /// Returns true if tool calls are separated from its text.
    pub fn calls_tools(&self) -> bool {
        self.formats.tool_calls().is_some()
    }

    /// Returns true if reasoning is separated from its text.
    pub fn reasons(&self) -> bool {
        self.formats.reasoning().is_some()
    }

    /// Returns the limits of the images, sounds and vectors of a request.
    pub(crate) fn media(&self) -> MediaLimits {
        self.media
    }

    /// Returns the maximum number of tokens in a prompt. It leaves room for one token of the
    /// answer, or is less if the graph sets a lower limit.
    pub fn max_input_tokens(&self) -> usize {
        let fitting = self.engine().context_length().saturating_sub(1);
        match self.max_input_tokens {
            0 => fitting,
            most => fitting.min(most as usize),
        }
    }

    /// Returns the earlier replies whose tokens later prompts get.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Returns the chat template for a conversation, with tools or without.
    ///
    /// # Errors
    /// The model has no chat template, or the template in its file is not valid.
    pub fn chat_template(&self, with_tools: bool) -> Result<&ChatTemplate> {
        let own = self.tool_template.as_ref().filter(|_| with_tools);
        let model = self.vocab.model_name();
        let (why, cause) = match own.or(self.template.as_ref()) {
            Some(Ok(template)) => return Ok(template),
            Some(Err(error)) => (
                format!(
                    "the chat template in the file of the model `{model}` cannot be used: {error}"
                ),
                Some(error),
            ),
            None => (format!("the model `{model}` has no chat template"), None),
        };
        let instead = format!(
            "use the completions endpoint, or put a `{}` beside the model",
            templates::FILE
        );
        let error = Error::invalid(format!("{why}; {instead}"));
        Err(match cause {
            Some(cause) => error.with_source(cause.clone()),
            None => error,
        })
    }

    /// Returns the reason for which it refuses conversations; `None` if it takes them.
    pub fn chat_refused(&self) -> Option<String> {
        self.chat_template(false).err().map(|error| error.message)
    }
}

impl Resource for LanguageModel {
    type Spec = ModelSpec;

    fn resolve(mut spec: ModelSpec, files: &dyn FileSource) -> Result<ModelSpec> {
        let base = files.resolve(Path::new("."));
        let model = resolve_model_path(&base, &spec.engine.model.to_string_lossy());
        let model = model.map_err(|error| unusable(error).with_field(MODEL))?;
        spec.engine.backend = BackendKind::for_model(&model);
        spec.engine.model = files.resolve(&model);
        if let Some(draft) = &mut spec.engine.draft {
            let found = resolve_model_path(&base, &draft.model.to_string_lossy());
            draft.model = files.resolve(&found.map_err(|error| unusable_part(DRAFT, error))?);
        }
        if let Some(vision) = &mut spec.engine.vision {
            let named = vision.mmproj.to_string_lossy().into_owned();
            let found = resolve_model_path(&base, &named);
            vision.mmproj = files.resolve(&found.map_err(|error| unusable_part(PROJECTOR, error))?);
        } else if spec.finds_projector
            && spec.engine.backend == BackendKind::Llama
            && cfg!(feature = "vision")
            && let Some(found) = projector_beside(&spec.engine.model)
        {
            spec.engine.vision = Some(VisionSpec {
                cache_size: spec.image_cache_size,
                required: spec.needs_projector,
                ..VisionSpec::new(files.resolve(&found))
            });
        }
        if spec.needs_projector && spec.engine.vision.is_none() {
            let message = "`pipeline_type` needs a projector: name one as `mmproj`";
            return Err(Error::invalid(message).with_field("pipeline_type"));
        }
        for adapter in &mut spec.engine.adapters {
            adapter.path = files.resolve(&adapter.path);
        }
        spec.chat_template = spec.chat_template.map(|path| files.resolve(&path));
        Ok(spec)
    }

    fn check(spec: &ModelSpec, files: &dyn FileSource) -> Result<()> {
        // A script replaces a model's adapters, too.
        let is_script = spec.engine.backend == BackendKind::Scripted;
        let adapters = spec.engine.adapters.iter().filter(|_| !is_script);
        for (at, adapter) in adapters.enumerate() {
            let unreadable = |error: std::io::Error| {
                let message = format!(
                    "cannot read the adapter `{}`: {error}",
                    adapter.path.display()
                );
                let kind = match error.kind() {
                    std::io::ErrorKind::NotFound => Kind::NotFound,
                    _ => Kind::InvalidArgument,
                };
                let error = Error::new(kind, message).with_source(error);
                error.with_field(adapter_option(at))
            };
            files.find(&adapter.path).map_err(unreadable)?;
        }
        let engine = &spec.engine;
        // A projector that only lies beside the model is not needed to load it.
        let projector = engine.vision.as_ref().filter(|vision| vision.required);
        let models = [
            Some(&engine.model),
            engine.draft.as_ref().map(|draft| &draft.model),
            projector.map(|vision| &vision.mmproj),
        ];
        let models = models.into_iter().flatten().filter(|_| !is_script);
        check_headers(models.map(PathBuf::as_path)).map_err(|error| at_fault(engine, error))?;
        templates::chosen(spec, files).map(drop)
    }

    fn load(spec: &ModelSpec, files: &dyn FileSource) -> Result<Self> {
        spec.engine.validate().map_err(unusable)?;
        if let (true, Some(vision)) = (spec.finds_projector, &spec.engine.vision) {
            tracing::info!(
                model = %spec.engine.model.display(),
                mmproj = %vision.mmproj.display(),
                "the projector beside the model is loaded with it"
            );
        }
        let chosen = templates::chosen(spec, files)?;
        let engine = SupervisedEngine::<LlmEngine>::load(spec.engine.clone());
        let engine = engine.map_err(|error| at_fault(&spec.engine, error))?;
        let vocab = engine.current().vocab();
        let templates = match chosen {
            Some(template) => [Some(Ok(template)), None],
            None => [None, Some(TOOL_TEMPLATE)].map(|name| templates::own(&*vocab, name)),
        };
        if templates[0].is_none() {
            tracing::warn!(
                model = vocab.model_name(),
                "the model has no chat template; chat/completions will be refused"
            );
        }
        let generation = GenerationConfig::beside(
            &spec.engine.model,
            spec.generation_config.as_deref(),
            files,
            vocab.n_vocab(),
        )?;
        Self::new(engine, Some(spec), templates, generation)
    }
}
