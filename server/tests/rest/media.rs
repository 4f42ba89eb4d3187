//! Images that are somewhere else: a server of them on this machine, which is fetched from only
//! where the options name its address.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use graphmill_server::{KeySource, MediaHost, Options};
use graphmill_testkit::projector::{Kind, MODEL_WIDTH, make};
use serde_json::{Value, json};

use crate::rest::images::{chat, graph, is_same, png, url};
use crate::rest::support::{Setup, TestServer, read};

/// Most bytes of a body, and so of an image.
const MAX_BYTES: usize = 20_000;

/// Somebody who has images.
struct Host {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl Host {
    fn start(file: Vec<u8>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                answer(&client.expect("a client"), &file);
            }
        });
        Self { address, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(client: &TcpStream, file: &[u8]) {
    let mut lines = BufReader::new(client).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    lines.map_while(Result::ok).find(String::is_empty);
    let long = vec![0; MAX_BYTES + 1];
    let (status, kind, more, body) = match first.split(' ').nth(1) {
        Some("/image.png") => ("200 OK", "image/png", "", file),
        Some("/long.png") => ("200 OK", "image/png", "", &long[..]),
        Some("/page") => ("200 OK", "text/html", "", file),
        Some("/moved") => (
            "302 Found",
            "image/png",
            "location: /image.png\r\n",
            &[][..],
        ),
        _ => ("404 Not Found", "image/png", "", &[][..]),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let mut client = client;
    // Whoever has seen enough leaves.
    let _ = client.write_all(&[head.as_bytes(), body].concat());
}

/// A server that may fetch from these hosts.
async fn server(hosts: &[String]) -> TestServer {
    server_with(hosts, |_| ()).await
}

async fn server_with(hosts: &[String], change: impl FnOnce(&mut Options) + 'static) -> TestServer {
    let hosts: Vec<MediaHost> = hosts
        .iter()
        .map(|host| host.parse().expect("a host"))
        .collect();
    let setup = Setup::new();
    let projector = make(setup.path(), Kind::Square, MODEL_WIDTH, 4.0);
    let options = format!(
        "max_num_seqs: 4 max_context: 512 mmproj: \"{}\"",
        projector.display()
    );
    setup
        .graph("sees", &graph(&options))
        .bodies(MAX_BYTES, 10 * MAX_BYTES)
        .with(|options| {
            options.media_hosts = hosts;
            change(options);
        })
        .start()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_fetched_from_a_host_that_is_named() {
    let file = png(8, 8, 3);
    let host = Host::start(file.clone());
    let server = server(&[host.address.to_string()]).await;
    let expected = server.chat(&chat("sees", &[url(&file)])).await.json();
    let answer = server.chat(&chat("sees", &[host.url("/image.png")])).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(is_same(&answer.json(), &expected), "{}", answer.text);
    assert_eq!(host.asked(), 1);
    let source = json!({ "type": "url", "url": host.url("/image.png") });
    let blocks = json!([{ "type": "image", "source": source }]);
    let request = json!({
        "model": "sees", "max_tokens": 1,
        "messages": [{ "role": "user", "content": blocks }],
    });
    let answer = read(server.post("/v1/messages", request.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(host.asked(), 2);
}

fn check(error: &Value, code: &str, message: &str) {
    assert_eq!(error["code"], code, "{error}");
    assert_eq!(error["param"], "messages[0].content[0]", "{error}");
    let said = error["message"].as_str().expect("a message");
    assert!(said.contains(message), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_image_of_an_allowed_host_is_refused() {
    let host = Host::start(png(8, 8, 3));
    let port = host.address.port();
    let server = server(&[host.address.to_string(), format!("localhost:{port}")]).await;
    let ask = async |url: String| {
        let answer = server.chat(&chat("sees", &[url])).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        answer.json()["error"].clone()
    };
    for (url, code, message) in [
        // A name of this machine, whatever the options say.
        (
            format!("http://localhost:{port}/image.png"),
            "invalid_image_url",
            "not public",
        ),
        (
            format!("http://127.0.0.2:{port}/image.png"),
            "unsupported_parameter",
            "--allowed_media_domains",
        ),
        (
            "https://127.0.0.1/image.png".to_owned(),
            "unsupported_parameter",
            "--allowed_media_domains",
        ),
        (
            format!("http://user@127.0.0.1:{port}/image.png"),
            "invalid_image_url",
            "password",
        ),
    ] {
        check(&ask(url).await, code, message);
    }
    assert_eq!(host.asked(), 0);
    for (path, code, message) in [
        ("/moved", "invalid_image_url", "302"),
        ("/nothing", "invalid_image_url", "404"),
        ("/page", "invalid_image_url", "not that of an image"),
        ("/long.png", "image_too_large", "--max_body_bytes"),
    ] {
        check(&ask(host.url(path)).await, code, message);
    }
    // Nothing was followed.
    assert_eq!(host.asked(), 4);
    let many = vec![host.url("/image.png"); 17];
    let error = &server.chat(&chat("sees", &many)).await.json()["error"];
    assert_eq!(error["code"], "too_many_images", "{error}");
    assert_eq!(host.asked(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_read_from_the_folder_that_is_named_and_from_nowhere_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a folder");
    let (inside, outside) = (folder.join("in"), folder.join("outside.png"));
    std::fs::create_dir(&inside).expect("writable");
    let file = png(8, 8, 3);
    for path in [&inside.join("a b.png"), &outside] {
        std::fs::write(path, &file).expect("writable");
    }
    std::fs::write(inside.join("long.png"), vec![0; MAX_BYTES + 1]).expect("writable");
    std::os::unix::fs::symlink(&outside, inside.join("link.png")).expect("writable");
    let allowed = inside.clone();
    let server = server_with(&[], |options| options.media_folder = Some(allowed)).await;
    let expected = server.chat(&chat("sees", &[url(&file)])).await.json();
    let at = |name: &str| format!("{}/{name}", inside.display());
    for path in [at("a b.png"), format!("file://{}", at("a%20b.png"))] {
        let answer = server
            .chat(&chat("sees", std::slice::from_ref(&path)))
            .await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert!(
            is_same(&answer.json(), &expected),
            "{path}: {}",
            answer.text
        );
    }
    for (path, code, message) in [
        (
            at("link.png"),
            "invalid_image_url",
            "no such file in the folder",
        ),
        (
            at("../outside.png"),
            "invalid_image_url",
            "no such file in the folder",
        ),
        (
            at("nothing.png"),
            "invalid_image_url",
            "no such file in the folder",
        ),
        (at(""), "invalid_image_url", "no such file in the folder"),
        (
            "file://host/a.png".to_owned(),
            "invalid_image_url",
            "not that of a local file",
        ),
        (at("long.png"), "image_too_large", "--max_body_bytes"),
        (
            "http://127.0.0.1/a.png".to_owned(),
            "unsupported_parameter",
            "--allowed_media_domains",
        ),
    ] {
        let answer = server.chat(&chat("sees", &[path])).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        check(&answer.json()["error"], code, message);
    }
    let host = ["127.0.0.1:9".to_owned()];
    let server = self::server(&host).await;
    let answer = server.chat(&chat("sees", &[at("a b.png")])).await;
    let (code, message) = ("unsupported_parameter", "--allowed_local_media_path");
    check(&answer.json()["error"], code, message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_fetched_unless_hosts_are_named() {
    let host = Host::start(png(8, 8, 3));
    let server = server(&[]).await;
    let answer = server.chat(&chat("sees", &[host.url("/image.png")])).await;
    assert_eq!(answer.status, 400);
    check(
        &answer.json()["error"],
        "unsupported_parameter",
        "fetches none",
    );
    assert_eq!(host.asked(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_asks_for_slow_images_holds_up_no_other() {
    const AT_ONCE: usize = 16;
    let host = Host::start(png(8, 8, 3));
    // It takes connections and says nothing.
    let slow = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let slow_address = slow.local_addr().expect("bound");
    let hosts = [host.address, slow_address].map(|address| address.to_string());
    let folder = tempfile::tempdir().expect("writable");
    let keys = folder.path().join("keys.json");
    let both = json!({ "keys": [{ "name": "one", "key": "1" }, { "name": "other", "key": "2" }] });
    std::fs::write(&keys, both.to_string()).expect("writable");
    let server = server_with(&hosts, move |options| {
        options.keys = Some(KeySource::File(keys));
    })
    .await;
    let ask = |key: &str, url: String| {
        let request = server.post("/v3/chat/completions", chat("sees", &[url]).to_string());
        read(request.header("authorization", format!("Bearer {key}")))
    };
    let mut waiting = Vec::new();
    let mut held = Vec::new();
    for _ in 0..=AT_ONCE {
        waiting.push(tokio::spawn(ask(
            "1",
            format!("http://{slow_address}/a.png"),
        )));
    }
    for _ in 0..AT_ONCE {
        held.push(slow.accept().await.expect("it is asked"));
    }
    let answer = ask("2", host.url("/image.png")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(waiting.iter().all(|request| !request.is_finished()));
}
