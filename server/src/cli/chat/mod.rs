//! `graphmill chat`: a conversation in the terminal, or one question through a pipe.

mod conversation;
mod image;
mod terminal;

use std::{
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::Registry;
use graphmill_llm::trial;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{
    client::{Client, USUAL_URL},
    report, runtime,
    server::ClientKey,
    source::{self, ModelFlags, ServeSource},
};
use crate::{
    app::Server,
    app::state::Options,
    config::{self, Config},
    telemetry::log::{self, Level, LogFormat},
};
use conversation::{AnswerEnd, Conversation, Said};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ChatArguments {
    /// Model (a file, or `org/repo` on Hugging Face), graph or config.json to serve only for this
    /// conversation, or URL of a running server.
    #[arg(value_name = "MODEL|URL", default_value = USUAL_URL)]
    whom: String,
    /// Name of the model on the server [default: its first model].
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// System message, sent before the conversation.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Image for the first question; can be given several times.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Sampling temperature [default: that of the graph or its model].
    #[arg(long, value_name = "NUMBER")]
    temperature: Option<f64>,
    /// Maximum number of tokens in an answer.
    #[arg(long, value_name = "COUNT")]
    max_tokens: Option<u32>,
    #[command(flatten)]
    key: ClientKey,
    /// Lowest level of log messages, if a model is served for this conversation.
    #[arg(long, value_name = "LEVEL", default_value = "WARNING")]
    log_level: Level,
    #[command(flatten)]
    model: ModelFlags,
}

/// Exit status of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

pub(super) fn run(arguments: &ChatArguments) -> Result<ExitCode, String> {
    let pictures = arguments.image.iter().map(|file| image::part(file));
    let pictures = pictures.collect::<Result<Vec<_>, _>>()?;
    let runtime = runtime()?;
    let is_url = arguments.whom.contains("://");
    let server = if is_url {
        if let Some(flag) = arguments.model.any()? {
            return Err(format!(
                "`--{flag}` applies only to a model that is served here, not to a URL"
            ));
        }
        None
    } else {
        Some(serve(arguments, &runtime)?)
    };
    let url = match &server {
        Some(server) => format!("http://{}", server.addresses()[0]),
        None => arguments.whom.clone(),
    };
    let client = arguments
        .key
        .client(&url)?
        .hinting("`graphmill serve MODEL` starts a server, `graphmill chat MODEL` needs none");
    let models = runtime.block_on(models(&client))?;
    let model = match &arguments.model_name {
        Some(name) => name.clone(),
        None => models
            .first()
            .cloned()
            .ok_or("the server has no model that is ready")?,
    };
    let mut conversation = Conversation::new(model, arguments.system.clone());
    conversation.temperature = arguments.temperature;
    conversation.max_tokens = arguments.max_tokens;
    for picture in pictures {
        conversation.show(picture);
    }
    let status = if io::stdin().is_terminal() && io::stdout().is_terminal() {
        terminal::talk(&runtime, &client, conversation, &models).map(|()| ExitCode::SUCCESS)
    } else {
        ask(&runtime, &client, conversation)
    };
    // The process exits without waiting for the model's threads.
    std::mem::forget((server, runtime));
    status
}

/// Starts a server for this conversation, on a free port of the loopback address.
fn serve(arguments: &ChatArguments, runtime: &Runtime) -> Result<Server, String> {
    log::start(arguments.log_level, LogFormat::Text, None)?;
    let config = configuration(arguments)?;
    trial::begin();
    let options = Options::new(config, ([127, 0, 0, 1], 0).into());
    runtime.block_on(async {
        let server = Server::start(options, Registry::global());
        let mut server = server.map_err(|error| error.to_string())?;
        let _shown = super::progress::show(&server);
        match server.loaded().await {
            None => Ok(server),
            Some(reason) => Err(server.nothing_to_serve().unwrap_or(reason)),
        }
    })
}

fn configuration(arguments: &ChatArguments) -> Result<Config, String> {
    let source = ServeSource::given(Path::new(&arguments.whom))?;
    let is_model = matches!(source, ServeSource::Model(_) | ServeSource::Named(_));
    if let (false, Some(flag)) = (is_model, arguments.model.any()?) {
        let whom = &arguments.whom;
        return Err(format!(
            "`--{flag}` applies only to a model file, and `{whom}` has its own graph"
        ));
    }
    match source {
        ServeSource::Model(model) => source::one_model(&model, None, &arguments.model),
        ServeSource::Named(order) => source::one_named(&order, None, &arguments.model),
        ServeSource::Graph { file, base } => source::one_graph(&file, &base, None),
        ServeSource::Repository(root) => {
            let found = source::all_in(&root)?;
            found.left_out.iter().for_each(|why| report::note(why));
            Ok(found.config)
        }
        ServeSource::Models(root) => Ok(source::models_in_folder(&root)),
        ServeSource::Configuration(file) => {
            let loaded = config::load(&file);
            report::show(&loaded.sources, &loaded.diagnostics);
            let whom = &arguments.whom;
            loaded
                .config
                .ok_or_else(|| format!("`{whom}` cannot be served"))
        }
    }
}

/// Returns the names of the models that are ready.
async fn models(client: &Client) -> Result<Vec<String>, String> {
    let list = client.get_json("/v3/models").await?;
    let all = list["data"].as_array().into_iter().flatten();
    let name = |model: &Value| model["id"].as_str().map(str::to_owned);
    Ok(all.filter_map(name).collect())
}

/// Sends standard input as one question, and prints only the answer.
fn ask(
    runtime: &Runtime,
    client: &Client,
    mut conversation: Conversation,
) -> Result<ExitCode, String> {
    let mut question = String::new();
    io::stdin()
        .read_to_string(&mut question)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    let question = question.trim();
    if question.is_empty() {
        return Err("standard input is empty: expected a question".to_owned());
    }
    let print = |said: Said<'_>| match said {
        Said::Answer(text) => {
            let mut output = io::stdout();
            output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush())
                .is_ok()
        }
        Said::Reasoning(_) => true,
    };
    match runtime.block_on(conversation.ask(client, question, print))? {
        AnswerEnd::Stopped => Ok(ExitCode::from(INTERRUPTED)),
        // If nothing reads standard output any more, the line break is not needed either.
        AnswerEnd::All | AnswerEnd::Unread => {
            let _ = writeln!(io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}
