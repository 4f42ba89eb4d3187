//! A hub on this machine, and the host that it sends those to who ask for files.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

use ring::digest::{SHA256, digest};
use serde_json::json;

/// The repository that the hub has.
pub(crate) const REPOSITORY: &str = "org/model-GGUF";
/// Its commit.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What the hub has and does.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// The token that it wants.
    pub(crate) token: Option<&'static str>,
    /// What it calls its refusals.
    pub(crate) error_code: &'static str,
    /// The status of whoever asks for a file, once so many were given.
    pub(crate) files_end: Option<(usize, &'static str)>,
    /// The next answers with files end after so many bytes each.
    pub(crate) cuts: Vec<usize>,
    /// Files stop in the middle until this is taken back.
    pub(crate) holds: bool,
    pub(crate) ignores_ranges: bool,
    /// Sums and sizes that it tells instead of the true ones.
    pub(crate) told: BTreeMap<String, (String, u64)>,
    /// The requests: which host, which path, which range, and whether with a token.
    pub(crate) requests: Vec<Request>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) is_hub: bool,
    pub(crate) path: String,
    pub(crate) range: Option<usize>,
    pub(crate) has_token: bool,
}

pub(crate) struct Hub {
    state: Arc<(Mutex<State>, Condvar)>,
    address: SocketAddr,
}

impl Hub {
    /// Starts a hub with these files.
    pub(crate) fn start(files: &[(&str, &[u8])]) -> Self {
        let files = files
            .iter()
            .map(|(path, file)| ((*path).to_owned(), file.to_vec()));
        let state = State {
            files: files.collect(),
            ..State::default()
        };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let listen = || TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let (hub, host) = (listen(), listen());
        let address = hub.local_addr().expect("bound");
        let elsewhere = host.local_addr().expect("bound");
        for (listener, is_hub) in [(hub, true), (host, false)] {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for client in listener.incoming() {
                    let (state, client) = (Arc::clone(&state), client.expect("a client"));
                    thread::spawn(move || answer(&state, &client, is_hub, elsewhere));
                }
            });
        }
        Self { state, address }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().expect("no panic")
    }

    /// Lets go of the files that are held.
    pub(crate) fn release(&self) {
        self.state().holds = false;
        self.state.1.notify_all();
    }

    /// The requests for files at the other host.
    pub(crate) fn fetches(&self) -> Vec<Request> {
        let state = self.state();
        let files = state.requests.iter().filter(|request| !request.is_hub);
        files.cloned().collect()
    }

    /// Has a program ask this hub, with its cache in a folder.
    pub(crate) fn serves(&self, command: &mut Command, home: &std::path::Path) {
        for variable in [
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HF_TOKEN_PATH",
            "HF_HUB_CACHE",
            "HUGGINGFACE_HUB_CACHE",
            "HF_HUB_OFFLINE",
            "HTTP_PROXY",
            "http_proxy",
            "ALL_PROXY",
            "all_proxy",
        ] {
            command.env_remove(variable);
        }
        command
            .env("HF_ENDPOINT", format!("http://{}", self.address))
            .env("HF_HOME", home)
            .env("XDG_CACHE_HOME", home);
    }
}

/// The sum of a file, in digits.
pub(crate) fn sha256(file: &[u8]) -> String {
    let mut digits = String::new();
    for byte in digest(&SHA256, file).as_ref() {
        write!(digits, "{byte:02x}").expect("a string");
    }
    digits
}

fn answer(
    shared: &(Mutex<State>, Condvar),
    client: &TcpStream,
    is_hub: bool,
    elsewhere: SocketAddr,
) {
    let mut lines = BufReader::new(client).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let header = |name: &str| {
        headers.iter().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    };
    let range = header("range").and_then(|range| {
        let start = range.strip_prefix("bytes=")?.strip_suffix('-')?;
        start.parse().ok()
    });
    let token = header("authorization");
    let mut state = shared.0.lock().expect("no panic");
    let request = Request {
        is_hub,
        path: path.clone(),
        range,
        has_token: token.is_some(),
    };
    state.requests.push(request);
    let mut out = client;
    // Whoever has seen enough leaves.
    let mut say = |head: &str, body: &[u8]| {
        let length = body.len();
        let head =
            format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        let _ = out.write_all(&[head.as_bytes(), body].concat());
    };
    if is_hub {
        let code = format!("x-error-code: {}", state.error_code);
        let wanted = state.token.map(|token| format!("Bearer {token}"));
        if wanted.is_some() && token.is_none() {
            return say(&format!("401 Unauthorized\r\n{code}"), b"");
        }
        if wanted.is_some() && token != wanted {
            return say(&format!("403 Forbidden\r\n{code}"), b"");
        }
        if path == format!("/api/models/{REPOSITORY}/revision/main?blobs=true") {
            let siblings = state.files.iter().map(|(path, file)| {
                let told = state.told.get(path).cloned();
                let (sum, size) = told.unwrap_or_else(|| (sha256(file), file.len() as u64));
                let lfs = json!({ "sha256": sum, "size": size, "pointerSize": 134 });
                json!({ "rfilename": path, "size": size, "blobId": "x", "lfs": lfs })
            });
            let siblings: Vec<_> = siblings.collect();
            let info = json!({ "id": REPOSITORY, "sha": COMMIT, "siblings": siblings });
            return say("200 OK", info.to_string().as_bytes());
        }
        let Some(file) = path.strip_prefix(&format!("/{REPOSITORY}/resolve/{COMMIT}/")) else {
            return say("404 Not Found\r\nx-error-code: RepoNotFound", b"");
        };
        if let Some((left, status)) = &mut state.files_end {
            if *left == 0 {
                return say(status, b"");
            }
            *left -= 1;
        }
        let target = format!("302 Found\r\nlocation: http://{elsewhere}/{file}");
        return say(&target, b"");
    }
    let file = state.files.get(&path[1..]).cloned().unwrap_or_default();
    let start = range.filter(|_| !state.ignores_ranges);
    let (status, part) = match start {
        Some(start) => {
            let last = file.len() - 1;
            let range = format!("content-range: bytes {start}-{last}/{}", file.len());
            (format!("206 Partial Content\r\n{range}"), &file[start..])
        }
        None => ("200 OK".to_owned(), &file[..]),
    };
    let end = if state.cuts.is_empty() {
        part.len()
    } else {
        state.cuts.remove(0).min(part.len())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        part.len()
    );
    let middle = if state.holds { end / 2 } else { end };
    let _ = out.write_all(&[head.as_bytes(), &part[..middle]].concat());
    let _state = shared.1.wait_while(state, |state| state.holds);
    let _ = out.write_all(&part[middle..end]);
}
