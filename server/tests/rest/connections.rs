//! Clients that take their time, that are too many, and that speak HTTP/2: each limit is answered
//! with its own error, and others are served meanwhile.
//!
//! The limits are those of the system's clock, and sockets go through its kernel: a paused clock
//! would run ahead of them. Where time has to pass, a connection that is cut says that it has.

use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use graphmill_server::{Limits, Options};
use hyper::{Request, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::rest::support::{ACTOR, CHAT, Setup, TestServer, read, streamed};

const PATIENCE: Duration = Duration::from_secs(30);

/// Limits that a test can wait for; the others are too long for one.
fn limits(change: impl FnOnce(&mut Limits) + 'static) -> impl FnOnce(&mut Options) + 'static {
    |options| {
        let never = Duration::from_hours(1);
        options.limits = Limits {
            connections: 1_000,
            header: never,
            idle: never,
            body: never,
            write: never,
        };
        change(&mut options.limits);
    }
}

async fn actor(change: impl FnOnce(&mut Limits) + 'static) -> TestServer {
    let setup = Setup::new().graph("actor", ACTOR).with(limits(change));
    setup.start().await
}

const SOON: Duration = Duration::from_millis(200);

impl TestServer {
    async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.addresses()[0]).await;
        stream.expect("it listens")
    }

    async fn sends(&self, bytes: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.expect("writable");
        stream
    }
}

/// What the server says to a client that sends this and then waits. Where the machine holds the
/// client up for longer than a limit before it has sent anything, the connection ends without a word:
/// once more.
async fn said_to(server: &TestServer, bytes: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stream = server.connect().await;
        // The server may have closed it.
        let _ = stream.write_all(bytes.as_bytes()).await;
        let answer = rest(&mut stream).await;
        if !answer.is_empty() {
            return answer;
        }
        assert!(Instant::now() < deadline, "no answer to {bytes:?}");
    }
}

/// A connection on which a request was answered; the client tries as in [`said_to`].
async fn answered(server: &TestServer) -> TcpStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stream = server.connect().await;
        let _ = stream.write_all(GET.as_bytes()).await;
        let mut byte = [0];
        if stream.peek(&mut byte).await.is_ok_and(|count| count > 0) {
            until(&mut stream, "{\"live\":true}").await;
            return stream;
        }
        assert!(Instant::now() < deadline, "no answer");
    }
}

/// What comes until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset is an end, too, where nothing was to be said.
    let _ = reading.expect("it closes in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until this has come.
async fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&bytes).contains(wanted) {
            assert!(
                stream.read_buf(&mut bytes).await.expect("readable") > 0,
                "it ended"
            );
        }
    };
    timeout(PATIENCE, reading).await.expect("it comes in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn assert_refused(answer: &str, status: u16, code: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(code),
        "{answer}"
    );
}

const GET: &str = "GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn post(body: &str, length: usize) -> String {
    format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn a_head_that_does_not_come_to_its_end_is_cut() {
    let server = actor(|limits| limits.header = SOON).await;
    // Nothing, a part of HTTP/2's preface, half a head; also after a request that was whole.
    assert_eq!(rest(&mut server.connect().await).await, "");
    for half in [
        "GET /v2/hea",
        "P",
        "PRI * HTTP/2.0\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\nx: ",
    ] {
        assert_refused(&said_to(&server, half).await, 408, "request_timeout");
    }
    let mut stream = answered(&server).await;
    stream.write_all(b"GET ").await.expect("writable");
    assert_refused(&rest(&mut stream).await, 408, "request_timeout");
    // A byte now and then does not help. The pace of a client is what is tested, so it has a clock:
    // any slower or faster, and it would be another client, which has not sent a byte in this time,
    // or has filled the head.
    let mut stream = server.sends("GET / HTTP/1.1\r\nx: ").await;
    let (mut reader, mut writer) = stream.split();
    let dribbling = async {
        let mut pace = tokio::time::interval(SOON / 10);
        while writer.write_all(b"x").await.is_ok() {
            pace.tick().await;
        }
    };
    let mut answer = String::new();
    let read = async {
        let mut bytes = Vec::new();
        let _ = timeout(PATIENCE, reader.read_to_end(&mut bytes))
            .await
            .expect("in time");
        answer = String::from_utf8_lossy(&bytes).into_owned();
    };
    tokio::select! {
        () = read => {}
        () = dribbling => {}
    }
    assert!(answer.is_empty() || answer.contains("408"), "{answer}");
}

#[tokio::test]
async fn a_connection_may_be_idle_between_requests_for_its_own_time() {
    let server = actor(|limits| limits.header = SOON).await;
    let mut stream = answered(&server).await;
    // One that came later and has only half a head is cut before.
    assert_refused(&said_to(&server, "GET").await, 408, "request_timeout");
    stream.write_all(GET.as_bytes()).await.expect("writable");
    until(&mut stream, "{\"live\":true}").await;

    let server = actor(|limits| limits.idle = SOON).await;
    let answer = said_to(&server, GET).await;
    assert!(answer.ends_with("{\"live\":true}"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_cut_by_the_limit_and_by_the_deadline() {
    let server = actor(|limits| limits.body = SOON).await;
    let mut stream = server.sends(&post("{", 100)).await;
    assert_refused(&rest(&mut stream).await, 408, "request_timeout");
    let chunked = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n";
    assert_refused(
        &rest(&mut server.sends(chunked).await).await,
        408,
        "request_timeout",
    );

    let server = actor(|_| ()).await;
    let head = "host: localhost\r\nx-request-timeout-ms: 200\r\n";
    let request = post("{", 100).replace("host: localhost\r\n", head);
    assert_refused(
        &rest(&mut server.sends(&request).await).await,
        408,
        "request_timeout",
    );
    server.until_idle().await;
}

#[tokio::test]
async fn the_deadline_begins_with_the_first_byte_of_the_head() {
    let server = actor(|_| ()).await;
    let request = |action: serde_json::Value| {
        let body = json!({ "model": "actor", "actions": [action] }).to_string();
        post(&body, body.len()).replace(
            "host: localhost\r\n",
            "host: localhost\r\nconnection: close\r\nx-request-timeout-ms: 300\r\n",
        )
    };
    let answered = request(json!({ "body": "in time" }));
    let (first, second) = answered.split_at(20);
    let mut stream = server.sends(first).await;
    // The deadlines of two that came later, one after the other, have passed: the server may see
    // the first byte a while after it was sent.
    let hanging = request(json!({ "hang": true }));
    for _ in 0..2 {
        let answer = rest(&mut server.sends(&hanging).await).await;
        assert!(answer.contains("504"), "{answer}");
    }
    stream.write_all(second.as_bytes()).await.expect("writable");
    let answer = rest(&mut stream).await;
    assert!(answer.contains("504") || answer.contains("408"), "{answer}");
}

#[tokio::test]
async fn a_long_head_is_refused_and_one_that_fits_is_not() {
    let server = actor(|_| ()).await;
    for (bytes, status) in [(50 << 10, 200), (70 << 10, 431), (2 << 20, 431)] {
        let value = "x".repeat(bytes);
        let request = format!(
            "GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {value}\r\n\r\n"
        );
        let mut stream = server.connect().await;
        // The server may have enough before all is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{bytes}: {answer}"
        );
    }
    let many = "x: y\r\n".repeat(200);
    let request = format!("GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    let answer = rest(&mut server.sends(&request).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_refusal_of_a_body_that_is_still_being_sent_is_read() {
    let server = actor(|_| ()).await;
    let mut stream = server.sends(&post("", 1 << 30)).await;
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        while writer.write_all(&[b' '; 8 << 10]).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let mut bytes = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&bytes).contains("request_too_large") {
            assert!(reader.read_buf(&mut bytes).await.expect("not reset") > 0);
        }
    };
    tokio::select! {
        read = timeout(PATIENCE, reading) => read.expect("in time"),
        () = sending => {}
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let script = json!({ "name": "fast", "context": 60_000, "cells": 200_000, "replies": [
        { "text": "on and on ".repeat(100), "then": "repeat" },
    ] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let server = setup
        .with(limits(|limits| limits.write = SOON))
        .start()
        .await;
    let body = streamed("chat", "forever").to_string();
    // The smallest buffers there are, so that they fill.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(1 << 10).expect("small");
    let mut stream = socket
        .connect(server.server.addresses()[0])
        .await
        .expect("it listens");
    stream
        .write_all(post(&body, body.len()).as_bytes())
        .await
        .expect("writable");
    server
        .until("taken", |status| status["graphs"][0]["open_sessions"] == 1)
        .await;
    server.until_idle().await;
    drop(stream);
}

#[tokio::test]
async fn an_idle_connection_gives_way_and_none_that_works_does() {
    let server = actor(|limits| {
        limits.connections = 3;
        // A tenth of it protects connections that have just begun.
        limits.header = Duration::from_secs(5);
    })
    .await;
    let hang =
        json!({ "model": "actor", "actions": [{ "event": "1" }, { "hang": true }] }).to_string();
    let mut working = Vec::new();
    for _ in 0..2 {
        let mut stream = server.sends(&post(&hang, hang.len())).await;
        until(&mut stream, "data: 1").await;
        working.push(stream);
    }
    let mut idle = server.sends(GET).await;
    until(&mut idle, "live").await;
    // A fourth: the idle one leaves, as soon as the server has noticed that its answer was written.
    let deadline = Instant::now() + PATIENCE;
    let _fourth = loop {
        let mut fourth = server.sends(&post(&hang, hang.len())).await;
        if until(&mut fourth, "\r\n\r\n").await.contains(" 200 ") {
            break fourth;
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(rest(&mut idle).await, "");
    // A fifth: all work.
    let answer = rest(&mut server.sends(GET).await).await;
    assert_refused(&answer, 503, "too_many_connections");
    assert!(answer.contains("retry-after: 1"), "{answer}");
    // There is room again when one has left.
    drop(working.pop());
    until_live(&server).await;
}

#[tokio::test]
async fn operators_are_answered_when_clients_have_taken_all_places() {
    let setup = Setup::new()
        .graph("actor", ACTOR)
        .with(limits(|limits| limits.connections = 2));
    let server = setup
        .with(|options| options.management = vec![([127, 0, 0, 1], 0).into()])
        .start()
        .await;
    let mut taken = Vec::new();
    for _ in 0..2 {
        taken.push(server.sends("GET / HT").await);
    }
    let answer = rest(&mut server.sends(GET).await).await;
    assert_refused(&answer, 503, "too_many_connections");
    let management = format!("http://{}", server.server.management_addresses()[0]);
    for path in [
        "/v2/health/live",
        "/v2/health/ready",
        "/metrics",
        "/v3/status",
        "/v1/config",
    ] {
        let reply = read(server.client.get(format!("{management}{path}"))).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    for path in ["/v3/models", "/docs", "/v3/chat/completions"] {
        let reply = read(server.client.get(format!("{management}{path}"))).await;
        assert_eq!(reply.status, 404, "{path}: {}", reply.text);
    }
    drop(taken);
    for (path, status) in [
        ("/v2/health/ready", 200),
        ("/v3/models", 200),
        ("/metrics", 404),
        ("/v3/status", 404),
        ("/v1/config", 404),
    ] {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The places are free soon.
            let reply = server.get(path).await;
            if reply.status == status {
                break;
            }
            assert!(Instant::now() < deadline, "{path}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn http2_without_tls_is_served_and_limited() {
    let server = actor(|limits| limits.connections = 8).await;
    let stream = TokioIo::new(server.connect().await);
    let (client, connection) = http2::handshake(TokioExecutor::new(), stream)
        .await
        .expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let act = |actions: serde_json::Value| {
        let body = json!({ "model": "actor", "actions": actions }).to_string();
        let request =
            Request::post(format!("{}/v3/chat/completions", server.url)).body(Body::from(body));
        client.clone().send_request(request.expect("a request"))
    };
    let reply = act(json!([{ "body": "over two" }]))
        .await
        .expect("an answer");
    let text = to_bytes(Body::new(reply.into_body()), 1 << 20)
        .await
        .expect("a body");
    assert_eq!(&text[..], b"over two");
    // Streams of one connection count like connections.
    let hanging = (0..60).map(|_| act(json!([{ "event": "1" }, { "hang": true }])));
    let answers = timeout(PATIENCE, futures_util::future::join_all(hanging))
        .await
        .expect("all are answered");
    let refused = answers
        .iter()
        .filter(|answer| answer.as_ref().expect("an answer").status() == 503);
    assert!(refused.count() >= 10);
    drop(answers);
    server.until_idle().await;
}

/// Opens so many streams of a connection, with these windows for their answers, and waits for their
/// statuses. What it returns holds them open.
async fn streams(
    server: &TestServer,
    count: usize,
    window: u32,
    request: impl Fn() -> Request<Body>,
) -> Vec<hyper::Response<hyper::body::Incoming>> {
    let stream = TokioIo::new(server.connect().await);
    let (client, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(stream)
        .await
        .expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let sent = (0..count).map(|_| client.clone().send_request(request()));
    let answers = timeout(PATIENCE, futures_util::future::join_all(sent)).await;
    let answers = answers.expect("all are answered").into_iter();
    answers.map(|answer| answer.expect("an answer")).collect()
}

fn refused(answers: &[hyper::Response<hyper::body::Incoming>]) -> usize {
    let refused = answers.iter().filter(|answer| answer.status() == 503);
    refused.count()
}

/// Asks on new connections until one is answered, not refused.
async fn until_live(server: &TestServer) {
    let ask = GET.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = rest(&mut server.sends(&ask).await).await;
        if answer.contains("{\"live\":true}") {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}");
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_give_way_to_requests() {
    let server = actor(|limits| {
        limits.connections = 8;
        // A tenth of it protects answers that have just begun.
        limits.header = Duration::from_secs(5);
    })
    .await;
    let live = format!("{}/v2/health/live", server.url);
    let request = || Request::get(&live).body(Body::empty()).expect("a request");
    let unread = streams(&server, 100, 0, request).await;
    assert!(refused(&unread) > 0);
    until_live(&server).await;
    drop(unread);
}

#[tokio::test]
async fn connections_whose_answers_nobody_reads_give_way() {
    let script = json!({ "name": "fast", "context": 60_000, "cells": 200_000, "replies": [
        { "text": "on and on ".repeat(100), "then": "repeat" },
    ] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let server = setup
        .with(limits(|limits| {
            limits.connections = 2;
            limits.header = Duration::from_secs(5);
        }))
        .start()
        .await;
    let body = streamed("chat", "forever").to_string();
    let mut unread = Vec::new();
    for _ in 0..2 {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(1 << 10).expect("small");
        let address = server.server.addresses()[0];
        let mut stream = socket.connect(address).await.expect("it listens");
        let request = post(&body, body.len());
        stream
            .write_all(request.as_bytes())
            .await
            .expect("writable");
        unread.push(stream);
    }
    until_live(&server).await;
    drop(unread);
}

#[tokio::test]
async fn a_client_with_all_the_places_it_can_have_leaves_some_to_others() {
    let server = actor(|limits| limits.connections = 64).await;
    let hang =
        json!({ "model": "actor", "actions": [{ "event": "1" }, { "hang": true }] }).to_string();
    let request = || {
        let request = Request::post(format!("{}/v3/chat/completions", server.url));
        request.body(Body::from(hang.clone())).expect("a request")
    };
    let busy = streams(&server, 200, 1 << 16, request).await;
    assert!(refused(&busy) > 0);
    let mut connections = Vec::new();
    loop {
        let mut stream = server.sends("GET / HT").await;
        let refused = timeout(SOON, stream.read_u8()).await.is_ok();
        connections.push(stream);
        if refused {
            break;
        }
    }
    // Another client.
    let other = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let reply = read(
        other
            .build()
            .expect("a client")
            .get(format!("{}/v2/health/live", server.url)),
    );
    assert_eq!(reply.await.status, 200);
    drop((busy, connections));
}

#[tokio::test]
async fn an_idle_connection_of_http2_is_told_to_end_and_ends() {
    let server = actor(|limits| limits.idle = SOON).await;
    let stream = TokioIo::new(server.connect().await);
    let (_client, connection) = http2::handshake::<_, _, Body>(TokioExecutor::new(), stream)
        .await
        .expect("it speaks HTTP/2");
    timeout(PATIENCE, connection)
        .await
        .expect("in time")
        .expect("it ended well");
}

#[tokio::test]
async fn a_body_ends_where_every_server_on_its_way_sees_its_end() {
    let server = actor(|_| ()).await;
    for codings in [
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: identity, chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
    ] {
        let head = format!(
            "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\n{codings}\r\n0\r\n\r\n{GET}"
        );
        let answer = rest(&mut server.sends(&head).await).await;
        assert_refused(&answer, 400, "transfer-encoding");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    let body = json!({ "model": "actor" }).to_string();
    let chunked = format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: Chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let answer = until(&mut server.sends(&chunked).await, "\r\n\r\n").await;
    assert!(
        !answer.contains("unsupported `transfer-encoding`"),
        "{answer}"
    );
}

#[tokio::test]
async fn lines_that_end_in_a_line_feed_alone_hide_no_request() {
    let server = actor(|_| ()).await;
    let lone = GET.replace("\r\n", "\n");
    let answer = until(&mut server.sends(&lone).await, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for fields in [
        "content-length: 6\ntransfer-encoding: chunked\n",
        "transfer-encoding: chunked\ncontent-length: 6\n",
        "transfer-encoding: chunked\ntransfer-encoding: identity\n",
        "transfer-encoding:\n chunked\n",
        "x-field: a\n content-length: 5\n",
        "content-length: 5\ncontent-length: 6\n",
    ] {
        let head = format!("POST /v3/tokenize HTTP/1.1\nhost: localhost\n{fields}\n0\r\n\r\n{GET}");
        let answer = rest(&mut server.sends(&head).await).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{fields:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
}
