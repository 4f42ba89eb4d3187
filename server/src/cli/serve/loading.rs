//! Flags for loading, keeping and replacing graphs.

use std::{env, path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    app::state::Options,
    cli::{heading, source::ServeSource, user_folder, variable},
    config::Config,
    servable::{Keeper, LastGood, ReloadPolicy},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = heading::LIFECYCLE)]
pub(super) struct Loading {
    /// Maximum seconds that a request waits for its graph to be loaded; 0 does not wait.
    ///
    /// After that, the request gets status 503 and a `Retry-After` header.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    load_wait_seconds: u32,
    /// Seconds without a request after which a graph is unloaded; 0 never unloads.
    ///
    /// The next request loads it again. `idle_unload_seconds` of a graph takes precedence.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_unload_seconds: u32,
    /// Maximum number of graphs that are loaded on demand and in memory at the same time; 0 is no
    /// limit [default: 4 with `--models_dir`, else no limit].
    ///
    /// At the limit, the least recently used graph is unloaded before another is loaded. Graphs in
    /// use stay.
    #[arg(long, value_name = "COUNT")]
    models_max: Option<u32>,
    /// Behavior of a reload when the old and the new models do not fit into memory together.
    #[arg(long, value_name = "POLICY", value_enum, default_value = "refuse")]
    reload_policy: ReloadPolicy,
    /// Folder for the last good configuration [default: `$STATE_DIRECTORY` of systemd, or else
    /// `graphmill` in `$XDG_STATE_HOME` or `~/.local/state`, if writable].
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    /// Serves the last good configuration in place of the current config.json.
    ///
    /// Later changes to the file are loaded as usual.
    #[arg(long)]
    rollback: bool,
}

/// Default of `--models_max` with `--models_dir`.
const MODELS_MAX: u32 = 4;

impl Loading {
    pub(super) fn apply(&self, options: &mut Options) {
        let idle = Duration::from_secs(self.idle_unload_seconds.into());
        options.load_wait = Duration::from_secs(self.load_wait_seconds.into());
        options.idle_unload = Some(idle).filter(|idle| !idle.is_zero());
        let usual = options.lister.as_ref().map(|_| MODELS_MAX);
        let most = self.models_max.or(usual).filter(|most| *most > 0);
        options.models_max = most.map(|most| most as usize);
        options.reload_policy = self.reload_policy;
        options.state_dir = self.folder();
        options.rolled_back = self.rollback;
    }

    /// Returns the folder for good configurations.
    fn folder(&self) -> Option<PathBuf> {
        // The variable may list several folders.
        let of_service = || env::split_paths(&variable("STATE_DIRECTORY")?).next();
        let of_user = || Some(user_folder("XDG_STATE_HOME", ".local/state")?.join("graphmill"));
        self.state_dir.clone().or_else(of_service).or_else(of_user)
    }

    /// Returns the stored configuration if `--rollback` is given. The folder of `--state_dir` must
    /// be writable in any case.
    pub(super) fn rolled_back(&self, source: &ServeSource) -> Result<Option<Config>, String> {
        let ServeSource::Configuration(file) = source else {
            let why = "--rollback needs a config.json: nothing else is stored";
            return if self.rollback {
                Err(why.to_owned())
            } else {
                Ok(None)
            };
        };
        if !self.rollback && self.state_dir.is_none() {
            return Ok(None);
        }
        let folder = self
            .folder()
            .ok_or("--rollback has no folder: name it with --state_dir")?;
        let keeper = Keeper::new(&folder, file).map_err(|error| {
            let folder = folder.display();
            format!("cannot store a configuration in `{folder}` (--state_dir): {error}")
        })?;
        if !self.rollback {
            return Ok(None);
        }
        let LastGood {
            config,
            told,
            changed,
        } = keeper.find()?;
        tracing::info!("serving the configuration {told}");
        for file in changed {
            tracing::warn!("`{}` has changed since then", file.display());
        }
        Ok(Some(config))
    }
}
