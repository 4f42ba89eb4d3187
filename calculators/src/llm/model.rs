//! The resource behind the side packet `llm`: a model's batching engine, its vocabulary and its
//! chat template.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use graphmill_engine::{Error, FileSource, INVALID_RESOURCE, Kind, Resource, Result};
use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::{
    BackendKind, Health, LlmEngine, LlmEngineSpec, LoadError, SpecError, SupervisedEngine,
    VisionSpec, Vocab, check_headers, projector_beside, resolve_model_path,
};

use super::formats::OutputFormats;
use super::generation_config::GenerationConfig;
use super::history::History;
use super::media::MediaLimits;
use super::turns;
use crate::text::chat_template::{ChatTemplate, TemplateError};

/// File beside a model that replaces the chat template inside it.
const TEMPLATE_FILE: &str = "chat_template.jinja";
/// Option that names the model.
const MODEL: &str = "models_path";
/// Option that names the draft model.
const DRAFT: &str = "draft_models_path";
/// Option that names the projector, which reads images and sounds.
const PROJECTOR: &str = "mmproj";
/// Name of the template that some models have for conversations with tools.
const TOOL_TEMPLATE: &str = "tool_use";

/// The files and limits from which a [`LanguageModel`] is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelSpec {
    /// Engine and model file. Before the spec is resolved, its path is the one in the graph.
    pub engine: LlmEngineSpec,
    /// Chat template file that replaces the model's own.
    pub chat_template: Option<PathBuf>,
    /// File of sampling defaults that replaces the one beside the model, relative to its folder.
    pub generation_config: Option<PathBuf>,
    /// Name of the format of tool calls. If it is empty, the format is detected in the chat
    /// template.
    pub tool_parser: String,
    /// Name of the format of reasoning. If it is empty, the format is detected in the chat
    /// template.
    pub reasoning_parser: String,
    /// True if tool calls are constrained to their format even if the request does not demand any.
    pub guided_tool_calls: bool,
    /// True if a projector beside the model is loaded with it although none is named.
    pub finds_projector: bool,
    /// True if the graph needs a projector.
    pub needs_projector: bool,
    /// Maximum number of bytes of cached images and sounds, with such a projector.
    pub image_cache_size: u64,
    /// Limits of the images, sounds and vectors of a request.
    pub media: MediaLimits,
    /// Maximum number of tokens in a prompt; 0 is no limit.
    pub max_input_tokens: u32,
}

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
            Some(path) => Ok(named_template(&files.resolve(path), files)?),
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
        let vocab = engine.current().vocab();
        let (tools, reasoning) =
            spec.map_or(("", ""), |spec| (&spec.tool_parser, &spec.reasoning_parser));
        let formats = OutputFormats::new(tools, reasoning, template.as_ref().ok(), &*vocab)?;
        let template = Some(template);
        Ok(Self {
            generation: GenerationConfig::default(),
            media: spec.map_or_else(MediaLimits::default, |spec| spec.media),
            max_input_tokens: spec.map_or(0, |spec| spec.max_input_tokens),
            formats: formats.guided(spec.is_some_and(|spec| spec.guided_tool_calls)),
            template,
            tool_template: None,
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

    /// Returns its earlier replies.
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
        let instead =
            format!("use the completions endpoint, or put a `{TEMPLATE_FILE}` beside the model");
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
            draft.model = files.resolve(&found.map_err(unusable_draft)?);
        }
        if let Some(vision) = &mut spec.engine.vision {
            let named = vision.mmproj.to_string_lossy().into_owned();
            let found = resolve_model_path(&base, &named);
            vision.mmproj = files.resolve(&found.map_err(unusable_projector)?);
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
        chosen_template(spec, files).map(drop)
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
        let chosen = chosen_template(spec, files)?;
        if let Some(vision) = spec.engine.vision.as_ref().filter(|_| spec.finds_projector) {
            tracing::info!(
                model = %spec.engine.model.display(),
                mmproj = %vision.mmproj.display(),
                "the projector beside the model is loaded with it"
            );
        }
        let engine = SupervisedEngine::<LlmEngine>::load(spec.engine.clone());
        let engine = engine.map_err(|error| at_fault(&spec.engine, error))?;
        let vocab = engine.current().vocab();
        let (template, tool_template) = match chosen {
            Some(template) => (Some(Ok(template)), None),
            None => (
                own_template(&*vocab, None),
                own_template(&*vocab, Some(TOOL_TEMPLATE)),
            ),
        };
        if template.is_none() {
            tracing::warn!(
                model = vocab.model_name(),
                "the model has no chat template; chat/completions will be refused"
            );
        }
        let taught = usable(tool_template.as_ref().or(template.as_ref()));
        let formats =
            OutputFormats::new(&spec.tool_parser, &spec.reasoning_parser, taught, &*vocab)?
                .guided(spec.guided_tool_calls);
        let generation = GenerationConfig::beside(
            &spec.engine.model,
            spec.generation_config.as_deref(),
            files,
            vocab.n_vocab(),
        )?;
        Ok(Self {
            generation,
            media: spec.media,
            max_input_tokens: spec.max_input_tokens,
            formats,
            engine,
            vocab,
            history: History::new(),
            template,
            tool_template,
        })
    }
}

/// Returns the template, if it is valid.
fn usable(template: Option<&Result<ChatTemplate, TemplateError>>) -> Option<&ChatTemplate> {
    template.and_then(|template| template.as_ref().ok())
}

/// Reads the template that replaces the model's own, if the spec names one.
fn chosen_template(spec: &ModelSpec, files: &dyn FileSource) -> Result<Option<ChatTemplate>> {
    match &spec.chat_template {
        Some(path) => named_template(path, files).map(Some),
        None => template_beside(&spec.engine.model, files).map_err(|error| error.with_field(MODEL)),
    }
}

fn named_template(path: &Path, files: &dyn FileSource) -> Result<ChatTemplate> {
    read_template(path, files).map_err(|error| error.with_field("chat_template_file"))
}

/// Compiles the template stored with the model. If it does not compile, chats fail and completions
/// still work.
fn own_template(
    vocab: &dyn Vocab,
    name: Option<&str>,
) -> Option<Result<ChatTemplate, TemplateError>> {
    let compiled = ChatTemplate::new(vocab.chat_template(name)?);
    if let Err(error) = &compiled {
        tracing::warn!(model = vocab.model_name(), %error, "the model's chat template cannot be used");
    }
    Some(compiled)
}

fn template_beside(model: &Path, files: &dyn FileSource) -> Result<Option<ChatTemplate>> {
    let path = model.with_file_name(TEMPLATE_FILE);
    match files.read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => read_template(&path, files).map(Some),
    }
}

fn read_template(path: &Path, files: &dyn FileSource) -> Result<ChatTemplate> {
    let unreadable = |reason: String| {
        Error::invalid(format!(
            "cannot read the chat template `{}`: {reason}",
            path.display()
        ))
    };
    let bytes = files
        .read(path)
        .map_err(|error| unreadable(error.to_string()).with_source(error))?;
    let source = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    ChatTemplate::new(&source).map_err(|error| {
        let file = path.display();
        let message = match &error {
            TemplateError::Syntax { line, message } => {
                format!("chat template `{file}:{line}`: {message}")
            }
            other => format!("chat template `{file}`: {other}"),
        };
        Error::invalid(message).with_source(error)
    })
}

/// Converts the error of a model's path to an error of the graph.
pub(crate) fn unusable(error: SpecError) -> Error {
    let kind = match error {
        SpecError::Missing { .. } | SpecError::NoModel { .. } => Kind::NotFound,
        _ => Kind::InvalidArgument,
    };
    Error::new(kind, error.to_string()).with_source(error)
}

fn unusable_draft(error: SpecError) -> Error {
    let message = format!("`draft_models_path`: {error}");
    Error::new(unusable(error.clone()).kind, message)
        .with_source(error)
        .with_field(DRAFT)
}

fn unusable_projector(error: SpecError) -> Error {
    let message = format!("`mmproj`: {error}");
    Error::new(unusable(error.clone()).kind, message)
        .with_source(error)
        .with_field(PROJECTOR)
}

/// Adds the option that names the file to an error of loading.
fn at_fault(spec: &LlmEngineSpec, error: LoadError) -> Error {
    let option = match &error {
        LoadError::Spec { field, .. } => (*field).to_owned(),
        LoadError::Read { path, .. }
        | LoadError::Script { path, .. }
        | LoadError::Model { path, .. }
        | LoadError::Memory { path, .. }
        | LoadError::BackendMissing { path, .. } => {
            let adapter = spec.adapters.iter().position(|it| it.path == *path);
            let is_projector = spec.vision.as_ref().is_some_and(|it| it.mmproj == *path);
            let is_draft = spec.draft.as_ref().is_some_and(|it| it.model == *path);
            match adapter {
                Some(at) => adapter_option(at),
                None if is_draft && spec.model != *path => DRAFT.to_owned(),
                None if is_projector && spec.model != *path => PROJECTOR.to_owned(),
                None => MODEL.to_owned(),
            }
        }
        _ => return not_loaded(error),
    };
    not_loaded(error).with_field(option)
}

fn adapter_option(at: usize) -> String {
    format!("lora_adapters/{at}/path")
}

fn not_loaded(error: LoadError) -> Error {
    let is_wrong = matches!(error, LoadError::Script { .. });
    let failed = Error::unavailable(error.to_string()).with_source(error);
    if is_wrong {
        return failed.with_code(INVALID_RESOURCE);
    }
    failed
}
