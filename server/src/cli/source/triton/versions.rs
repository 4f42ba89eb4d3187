//! Versions of a model: folders whose names are numbers.

use std::path::Path;

use super::{ModelFolder, TritonReader, model::VersionPolicy};
use crate::config;

/// Lists the versions of a folder that contain a file of this name, in ascending order.
pub(super) fn with(folder: &Path, file: &str) -> impl Iterator<Item = u64> {
    let folders = config::version_folders(folder).into_iter();
    folders.filter(move |it| folder.join(it.to_string()).join(file).exists())
}

impl ModelFolder {
    /// Returns the versions that exist and that the version policy serves, in ascending order.
    pub(super) fn served(&self) -> Vec<u64> {
        let mut there: Vec<u64> = with(&self.folder, self.file_name()).collect();
        match &self.config.version_policy {
            VersionPolicy { all: Some(_), .. } => there,
            VersionPolicy {
                specific: Some(specific),
                ..
            } => {
                there.retain(|it| specific.versions.contains(it));
                there
            }
            VersionPolicy { latest, .. } => {
                let count = latest.as_ref().map_or(1, |latest| latest.num_versions);
                there.split_off(there.len().saturating_sub(count))
            }
        }
    }
}

impl TritonReader<'_> {
    /// Reports versions that the policy names but that do not exist.
    pub(super) fn check_versions(&mut self, model: &ModelFolder) {
        let policy = &model.config.version_policy;
        let specific = policy.specific.as_ref().filter(|_| policy.all.is_none());
        let wanted = specific.map_or(&[][..], |it| &it.versions);
        let is_missing = |it: &&u64| !model.versions.contains(it);
        let missing: Vec<u64> = wanted.iter().filter(is_missing).copied().collect();
        if !model.versions.is_empty() && missing.is_empty() {
            return;
        }
        let file = model.file_name();
        let there: Vec<u64> = with(&model.folder, file).collect();
        let folders = config::version_folders(&model.folder);
        let none = "there is no version to serve";
        let (known, unknown) = (listed(&there), listed(&missing));
        let (field, message) = if folders.is_empty() {
            let message = format!("{none}: expected a folder such as `1` with a `{file}`");
            ("", message)
        } else if there.is_empty() {
            let folders = listed(&folders);
            let message = format!("{none}: no version folder ({folders}) has a `{file}`");
            ("default_model_filename", message)
        } else if missing.is_empty() {
            let message = format!("`version_policy` serves no version, but there is {known}");
            ("version_policy", message)
        } else {
            let why = format!("names version {unknown}, but there is only {known}");
            ("version_policy", format!("`version_policy` {why}"))
        };
        if model.versions.is_empty() {
            self.wrong(model.place(field), message);
        } else {
            self.warn(model.place(field), message);
        }
    }
}

/// Maximum number of versions that a message lists.
const LISTED: usize = 10;

fn listed(versions: &[u64]) -> String {
    let first = versions.iter().take(LISTED);
    let mut all: Vec<String> = first.map(|it| format!("`{it}`")).collect();
    if versions.len() > LISTED {
        all.push("...".to_owned());
    }
    all.join(", ")
}
