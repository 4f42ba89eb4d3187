//! Download of one file. A part that is already here is kept, the rest is requested, and the whole
//! file is verified.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read as _, Write as _},
    path::Path,
    time::Duration,
};

use reqwest::{StatusCode, header};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use tokio::time::sleep;

use super::{
    bytes,
    cache::DownloadPaths,
    choice::{RepositoryFile, Sum},
    client::{Client, HubFailure},
    hex, progress,
};
use crate::http_client;

/// Maximum number of interruptions in a row without any progress.
const ATTEMPTS: u32 = 5;
/// Maximum number of interruptions in total.
const BREAKS: u32 = 200;
/// Pause before the third attempt, doubled for each further one. The second attempt follows at
/// once.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval for checking a file that another process downloads.
const LOOK: Duration = Duration::from_millis(200);

/// A file to download, with its repository and its place in the cache.
pub(super) struct PendingFile<'a> {
    pub(super) repository: &'a str,
    pub(super) commit: &'a str,
    pub(super) file: &'a RepositoryFile,
    pub(super) sum: &'a Sum,
    pub(super) place: DownloadPaths,
    /// Total size in bytes of the files before it.
    pub(super) before: u64,
}

impl PendingFile<'_> {
    /// Returns true if the file is on this machine.
    pub(super) fn is_here(&self) -> bool {
        let found = fs::metadata(&self.place.end);
        found.is_ok_and(|found| found.is_file() && found.len() == self.file.size)
    }

    /// Removes the file, so that it is downloaded again.
    pub(super) fn forget(&self) -> Result<(), String> {
        remove(&self.place.end).map_err(|error| self.unwritable(&error))
    }

    /// Downloads the file, unless it is on this machine.
    pub(super) async fn fetch(&self, client: &Client) -> Result<(), String> {
        if !self.is_here() {
            let _lock = self.lock().await?;
            // Another process may have downloaded it in the meantime.
            if !self.is_here() {
                self.download(client).await?;
            }
        }
        progress::reached(self.before + self.file.size);
        self.link().map_err(|error| self.unwritable(&error))
    }

    /// Waits until no other process downloads the file.
    async fn lock(&self) -> Result<File, String> {
        let unusable = |error: io::Error| self.unwritable(&error);
        for path in [&self.place.lock, &self.place.partial, &self.place.end] {
            fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).map_err(unusable)?;
        }
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false);
        let lock = lock.open(&self.place.lock).map_err(unusable)?;
        let mut waits = false;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if !std::mem::replace(&mut waits, true) {
                tracing::info!("another process downloads `{}`", self.file.path);
            }
            let here = fs::metadata(&self.place.partial).map_or(0, |partial| partial.len());
            progress::reached(self.before + here);
            sleep(LOOK).await;
        }
    }

    async fn download(&self, client: &Client) -> Result<(), String> {
        let mut partial = Partial::open(self).map_err(|error| self.unwritable(&error))?;
        self.check_room(partial.length)?;
        let (mut attempts, mut breaks) = (0, 0);
        while partial.length < self.file.size {
            let before = partial.length;
            let why = match self.request_rest(client, &mut partial).await {
                Ok(()) => continue,
                Err(HubFailure::Lasting(why)) => return Err(why),
                Err(HubFailure::Passing(why)) => why,
            };
            let goes_on = partial.length > before;
            attempts = if goes_on { 1 } else { attempts + 1 };
            breaks += 1;
            if attempts == ATTEMPTS || breaks == BREAKS {
                return Err(format!(
                    "cannot download `{}`: {why}; {} of {} are kept, and the next download \
                     continues from there",
                    self.file.path,
                    bytes(partial.length),
                    bytes(self.file.size)
                ));
            }
            let path = &self.file.path;
            tracing::warn!("the download of `{path}` was interrupted: {why}; continuing");
            if attempts > 1 {
                sleep(PAUSE * 2_u32.pow(attempts - 2)).await;
            }
        }
        let (file, digits) = partial.finish();
        let (Sum::Sha256(expected) | Sum::GitBlob(expected)) = self.sum;
        if digits != *expected {
            // The next download must not continue with these bytes.
            let removed = fs::remove_file(&self.place.partial);
            removed.map_err(|error| self.unwritable(&error))?;
            return Err(format!(
                "`{}` of `{}` is damaged: its checksum is {digits}, expected {expected}; the \
                 downloaded part was removed",
                self.file.path, self.repository
            ));
        }
        let kept = file.sync_all();
        kept.and_then(|()| fs::rename(&self.place.partial, &self.place.end))
            .map_err(|error| self.unwritable(&error))
    }

    /// Requests the missing part, and stores the received bytes.
    async fn request_rest(&self, client: &Client, partial: &mut Partial) -> Result<(), HubFailure> {
        let path = &self.file.path;
        let unwritable = |error: io::Error| HubFailure::Lasting(self.unwritable(&error));
        let clear = |partial: &mut Partial| {
            let cleared = partial.clear(self.sum, self.file.size);
            cleared.map_err(unwritable)
        };
        let asked = client.file(self.repository, self.commit, path, partial.length);
        let mut answer = asked.await?;
        let start = match answer.status() {
            StatusCode::PARTIAL_CONTENT => {
                let range = answer.headers().get(header::CONTENT_RANGE);
                let range = range.and_then(|range| range.to_str().ok()?.strip_prefix("bytes "));
                range.and_then(|range| range.split_once('-')?.0.parse().ok())
            }
            StatusCode::OK => Some(0),
            _ => None,
        };
        if start != Some(partial.length) {
            // The server does not support ranges, or sent another one, so the download starts over.
            clear(partial)?;
            if start != Some(0) {
                let status = answer.status();
                let why = format!("unexpected answer to a request for a part: {status}");
                return Err(HubFailure::Passing(why));
            }
        }
        loop {
            let chunk = answer.chunk().await.map_err(|error| {
                let why = http_client::reason(&error);
                HubFailure::Passing(format!("the connection was interrupted: {why}"))
            })?;
            let Some(chunk) = chunk else { break };
            if partial.length + chunk.len() as u64 > self.file.size {
                clear(partial)?;
                let why = format!("`{path}` is larger than {}", bytes(self.file.size));
                return Err(HubFailure::Lasting(why));
            }
            partial.add(&chunk).map_err(unwritable)?;
            progress::reached(self.before + partial.length);
        }
        if partial.length < self.file.size {
            let why = format!("the connection was closed after {}", bytes(partial.length));
            return Err(HubFailure::Passing(why));
        }
        Ok(())
    }

    /// Refuses a file that does not fit on its disk.
    fn check_room(&self, here: u64) -> Result<(), String> {
        let folder = self.place.partial.parent().unwrap_or(Path::new("."));
        let Ok(disk) = rustix::fs::statvfs(folder) else {
            return Ok(()); // writing reports an error
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let missing = self.file.size.saturating_sub(here);
        if missing <= free {
            return Ok(());
        }
        Err(format!(
            "`{}` does not fit: it needs {}, but the disk of `{}` has only {} left (HF_HOME names \
             another folder)",
            self.file.path,
            bytes(missing),
            folder.display(),
            bytes(free)
        ))
    }

    /// Creates the file's link in the snapshot.
    fn link(&self) -> io::Result<()> {
        let Some((link, target)) = &self.place.link else {
            return Ok(());
        };
        if link.exists() {
            return Ok(());
        }
        fs::create_dir_all(link.parent().unwrap_or(Path::new("")))?;
        // Replaces a broken link.
        remove(link)?;
        match std::os::unix::fs::symlink(target, link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn unwritable(&self, error: &io::Error) -> String {
        let folder = self.place.end.parent().unwrap_or(Path::new("."));
        let why = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "the disk is full; the downloaded part is kept".to_owned()
            }
            _ => error.to_string(),
        };
        let (path, folder) = (&self.file.path, folder.display());
        format!("cannot write `{path}` in `{folder}`: {why}")
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The downloaded part of a file, and its checksum so far.
struct Partial {
    file: File,
    length: u64,
    sum: Context,
}

impl Partial {
    fn open(wanted: &PendingFile<'_>) -> io::Result<Self> {
        let path = &wanted.place.partial;
        let mut options = File::options();
        let file = options.read(true).append(true).create(true).open(path)?;
        if file.metadata()?.len() > wanted.file.size {
            file.set_len(0)?;
        }
        let mut partial = Self {
            file,
            length: 0,
            sum: start_sum(wanted.sum, wanted.file.size),
        };
        let mut reader = File::open(path)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(partial),
                read => {
                    partial.sum.update(&buffer[..read]);
                    partial.length += read as u64;
                }
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.sum.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn clear(&mut self, sum: &Sum, size: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        self.sum = start_sum(sum, size);
        self.length = 0;
        Ok(())
    }

    fn finish(self) -> (File, String) {
        (self.file, hex(self.sum.finish().as_ref()))
    }
}

/// Returns the initial state of a checksum.
fn start_sum(sum: &Sum, size: u64) -> Context {
    match sum {
        Sum::Sha256(_) => Context::new(&SHA256),
        Sum::GitBlob(_) => {
            let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
            context.update(format!("blob {size}\0").as_bytes());
            context
        }
    }
}
