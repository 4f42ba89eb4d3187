//! Models by name: GGUF files of a Hugging Face repository, in the cache that Hugging Face's own
//! programs use, too.
//!
//! [`name`] parses `org/repo:Q4_K_M`, [`choice`] selects the files, [`client`] sends requests to
//! the hub, [`download`] downloads a file, [`cache`] finds its place, and [`progress`] reports the
//! progress.

mod cache;
mod choice;
mod client;
mod download;
mod name;
pub(crate) mod progress;

use std::{path::PathBuf, time::Instant};

use tokio::runtime::Builder;

pub(crate) use cache::{Cache, CachedFile};
use cache::{given, place_in, repository_files};
use choice::{choose, has_model};
use client::{Client, HubFailure, Listing};
use download::PendingFile;
pub(crate) use name::ModelName;
use progress::ProgressGuard;

/// The files of a downloaded model.
#[derive(Clone, Debug)]
pub(crate) struct FetchedModel {
    /// Model file, or the first of its parts.
    pub(crate) model: PathBuf,
    /// Projector for images, if the model has one.
    pub(crate) projector: Option<PathBuf>,
}

/// A model to download, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) name: ModelName,
    /// Folder for the files; `None` uses the cache.
    pub(crate) folder: Option<PathBuf>,
    /// True to download files again that exist.
    pub(crate) again: bool,
}

/// Downloads the missing files of a model. Blocks until they are complete.
pub(crate) fn fetch(order: &Order) -> Result<FetchedModel, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(fetch_files(order))
}

async fn fetch_files(order: &Order) -> Result<FetchedModel, String> {
    let cache = Cache::from_environment()?;
    let name = &order.name;
    let is_set = |value: String| ["1", "true", "yes", "on"].contains(&&*value.to_lowercase());
    if given("HF_HUB_OFFLINE").is_some_and(is_set) {
        let why = format!("`{name}` is not in the cache, and HF_HUB_OFFLINE forbids downloads");
        return find_cached(order, &cache).unwrap_or(Err(why));
    }
    let client = Client::new(given("HF_ENDPOINT"), token(&cache))?;
    match client.list(&name.repository).await {
        Ok(listing) => fetch_listed(order, &client, &cache, &listing).await,
        Err(HubFailure::Passing(why)) => match find_cached(order, &cache) {
            Some(Ok(fetched)) => {
                tracing::warn!("{why}: using `{name}` from the cache");
                Ok(fetched)
            }
            _ => Err(format!(
                "{why} (the cache has no such model; HF_ENDPOINT names another hub)"
            )),
        },
        Err(HubFailure::Lasting(why)) => Err(why),
    }
}

/// Returns the user's token: from the environment, or as `hf auth login` stores it.
fn token(cache: &Cache) -> Option<String> {
    let named = given("HF_TOKEN").or_else(|| given("HUGGING_FACE_HUB_TOKEN"));
    let kept = || {
        let path = given("HF_TOKEN_PATH").map(PathBuf::from);
        std::fs::read_to_string(path.unwrap_or_else(|| cache.home().join("token"))).ok()
    };
    let token = named.or_else(kept)?.trim().to_owned();
    Some(token).filter(|token| !token.is_empty())
}

/// Finds a model in the cache, without a request to the hub.
fn find_cached(order: &Order, cache: &Cache) -> Option<Result<FetchedModel, String>> {
    let places = match &order.folder {
        None => cache.snapshots(&order.name.repository),
        Some(folder) => vec![(folder.clone(), repository_files(folder))],
    };
    let places = places.iter().filter(|(_, files)| has_model(files));
    let chosen = places.map(|(folder, files)| {
        let choice = choose(files, &order.name);
        let choice = choice.map_err(|why| format!("without asking the hub: {why}"))?;
        Ok(FetchedModel {
            model: folder.join(&choice.model[0].path),
            projector: choice.projector.map(|file| folder.join(&file.path)),
        })
    });
    // The first place with the model, or else the error of the first place.
    chosen.reduce(|first, other| {
        if first.is_err() && other.is_ok() {
            other
        } else {
            first
        }
    })
}

async fn fetch_listed(
    order: &Order,
    client: &Client,
    cache: &Cache,
    listing: &Listing,
) -> Result<FetchedModel, String> {
    let repository = &order.name.repository;
    let commit = &listing.commit;
    let choice = choose(&listing.files, &order.name)?;
    let mut wanted: Vec<PendingFile<'_>> = Vec::new();
    let mut total = 0;
    for &file in choice.model.iter().chain(&choice.projector) {
        let path = &file.path;
        let sum = file.sum.as_ref().ok_or_else(|| {
            format!("the hub reports no checksum for `{path}`, so it is not downloaded")
        })?;
        wanted.push(PendingFile {
            repository,
            commit,
            file,
            sum,
            place: match &order.folder {
                None => cache.place(repository, commit, path, sum),
                Some(folder) => place_in(folder, path),
            },
            before: total,
        });
        total += file.size;
    }
    if order.again {
        for wanted in &wanted {
            wanted.forget()?;
        }
    }
    let missing = wanted.iter().filter(|wanted| !wanted.is_here());
    let missing: u64 = missing.map(|wanted| wanted.file.size).sum();
    let (_told, started) = (ProgressGuard::downloading(total), Instant::now());
    let (name, first) = (&order.name, &choice.model[0].path);
    if missing > 0 {
        tracing::info!("downloading {} of `{name}`: {first}", bytes(missing));
    }
    for wanted in &wanted {
        wanted.fetch(client).await?;
    }
    if missing > 0 {
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!("downloaded `{name}` in {seconds:.0} s");
    }
    if order.folder.is_none() {
        let folder = cache.folder(repository);
        let kept = cache.remember(repository, commit);
        kept.map_err(|error| format!("cannot write `{}`: {error}", folder.display()))?;
    }
    let path = |wanted: &PendingFile<'_>| match &wanted.place.link {
        Some((link, _)) => link.clone(),
        None => wanted.place.end.clone(),
    };
    Ok(FetchedModel {
        model: path(&wanted[0]),
        projector: choice.projector.and(wanted.last()).map(path),
    })
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Formats a number of bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    let (mut size, mut unit) = (bytes as f64 / 1e3, "kB");
    for larger in ["MB", "GB", "TB"] {
        if size >= 999.5 {
            (size, unit) = (size / 1e3, larger);
        }
    }
    let digits = usize::from(size < 9.95);
    format!("{size:.digits$} {unit}")
}
