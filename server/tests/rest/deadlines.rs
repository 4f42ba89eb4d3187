//! The deadline of a request holds whatever it is doing. What it does here goes on for longer, so
//! that the answer shows that the deadline ended it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::rest::support::{
    ACTOR, CHAT, Reply, Setup, TestServer, engine_numbers, question, read, sessions, streamed,
};

/// What requests allow.
const DEADLINE: Duration = Duration::from_millis(400);
/// A step of the model.
const STEP: Duration = Duration::from_millis(40);
const PATIENCE: Duration = Duration::from_mins(1);

/// One model for all phases: a place in the batch, prompts that take many steps, a template that
/// takes seconds if it is asked to.
async fn server() -> TestServer {
    let slow = "{% if a %}{% endif %}".repeat(45);
    let template = "{% if 'render' in messages[0]['content'] %}{% for a in range(60000) %}SLOW{% endfor %}{% endif %}\
         {% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
        .replace("SLOW", &slow);
    let script = json!({
        "name": "slow",
        "step_micros": STEP.as_micros() as u64,
        "chat_template": template,
        "replies": [{ "text": "on and on ", "then": "repeat" }],
    });
    let options = "max_num_seqs: 1 max_num_batched_tokens: 16";
    Setup::new()
        .graph("chat", &CHAT.replace("max_num_seqs: 4", options))
        .graph("actor", ACTOR)
        .script(&script)
        .start()
        .await
}

/// The error that an answer is, or that ends a stream.
fn error(reply: &Reply) -> (u16, Value) {
    let last = reply.text.trim().rsplit("data: ").next();
    let json: Value = serde_json::from_str(last.expect("an answer")).expect("JSON");
    (reply.status, json["error"]["code"].clone())
}

/// Has a request that never ends answered with one of `statuses` and this code, not before its
/// deadline.
async fn ends(what: &str, statuses: &[u16], code: &str, asked: impl Future<Output = Reply>) {
    let began = Instant::now();
    let reply = timeout(PATIENCE, asked).await.expect("an answer");
    let elapsed = began.elapsed();
    let (status, told) = error(&reply);
    assert!(
        statuses.contains(&status) && told == code,
        "{what}: {} {}",
        reply.status,
        reply.text
    );
    assert!(elapsed >= DEADLINE, "{what}: too early, {elapsed:?}");
}

fn by_header(server: &TestServer, body: &Value) -> reqwest::RequestBuilder {
    let millis = DEADLINE.as_millis().to_string();
    let request = server.post("/v3/chat/completions", body.to_string());
    request.header("x-request-timeout-ms", millis)
}

fn by_body(server: &TestServer, body: &Value) -> reqwest::RequestBuilder {
    let mut body = body.clone();
    body["timeout"] = DEADLINE.as_secs_f64().into();
    server.post("/v3/chat/completions", body.to_string())
}

/// Both ways to set a deadline, for a request and for a stream.
async fn ends_both_ways(server: &TestServer, what: &str, statuses: &[u16], body: &Value) {
    ends(what, statuses, "deadline", read(by_header(server, body))).await;
    ends(what, statuses, "deadline", read(by_body(server, body))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_body_comes_in() {
    let server = server().await;
    // A byte now and then, in HTTP/1.1, of a body that says how long it is and of one that does not.
    let dribble = async |framing: &str, piece: &'static [u8]| {
        let address = server.server.addresses()[0];
        let stream = TcpStream::connect(address).await.expect("it listens");
        let (mut answer, mut body) = stream.into_split();
        let head = format!(
            "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\n{framing}\r\nx-request-timeout-ms: {}\r\n\r\n",
            DEADLINE.as_millis()
        );
        body.write_all(head.as_bytes()).await.expect("writable");
        let sending = tokio::spawn(async move {
            while body.write_all(piece).await.is_ok() {
                sleep(Duration::from_millis(15)).await;
            }
        });
        let mut bytes = Vec::new();
        // The connection may be reset behind the answer, which has come by then.
        let _ = answer.read_to_end(&mut bytes).await;
        sending.abort();
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Reply {
            status: status.expect("a status"),
            headers: reqwest::header::HeaderMap::new(),
            text: body.to_owned(),
        }
    };
    for (framing, piece) in [
        ("content-length: 5000", &b" "[..]),
        ("transfer-encoding: chunked", &b"1\r\n \r\n"[..]),
    ] {
        let dribbles = dribble(framing, piece);
        ends(framing, &[408], "request_timeout", dribbles).await;
    }
    server.until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_prompt_is_made() {
    let server = server().await;
    let body = question("chat", "render");
    ends_both_ways(&server, "template", &[504], &body).await;
    server.until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_waits_and_computes() {
    let server = server().await;
    // A prompt of 2,000 tokens takes 125 steps.
    let long = question("chat", &"word ".repeat(400));
    ends_both_ways(&server, "prefill", &[504], &long).await;
    let mut body = question("chat", "go");
    ends_both_ways(&server, "decode", &[504], &body).await;
    body["stream"] = true.into();
    ends_both_ways(&server, "decode of a stream", &[200], &body).await;
    server.until_idle().await;
    let busy = server.post("/v3/chat/completions", streamed("chat", "go").to_string());
    let busy = busy.send().await.expect("an answer");
    let mut others = Vec::new();
    for _ in 0..3 {
        let body = question("chat", "go").to_string();
        let request = server.post("/v3/chat/completions", body);
        others.push(tokio::spawn(request.send()));
    }
    server
        .until("waiting", |status| engine_numbers(status)[..2] == [1, 3])
        .await;
    // Those without a place take turns with the one that has it, so it may come to its turn.
    ends_both_ways(&server, "queue", &[504], &question("chat", "go")).await;
    ends_both_ways(&server, "queue", &[200, 504], &streamed("chat", "go")).await;
    others.iter().for_each(tokio::task::JoinHandle::abort);
    drop(busy);
    server.until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_node_computes_in_the_task_of_its_session() {
    let server = server().await;
    let blocks = json!({ "model": "actor", "actions": [{ "block": 1500 }, { "body": "late" }] });
    ends_both_ways(&server, "a node", &[504], &blocks).await;
    let streams = json!({ "model": "actor", "actions": [
        { "event": "{}" }, { "block": 1500 }, { "done": true },
    ] });
    ends_both_ways(&server, "a node behind events", &[200], &streams).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_client_does_not_read() {
    let server = server().await;
    let events = vec![json!({ "event": "x".repeat(100 << 10) }); 60];
    let body = json!({ "model": "actor", "actions": events }).to_string();
    let request = format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nx-request-timeout-ms: {}\r\n\r\n{body}",
        body.len(),
        DEADLINE.as_millis()
    );
    loop {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4 << 10).expect("a small one");
        let address = server.server.addresses()[0];
        let mut unread = socket.connect(address).await.expect("it listens");
        let began = Instant::now();
        let sent = unread.write_all(request.as_bytes()).await;
        sent.expect("writable");
        // A busy machine may spend the time on the body, and no session is seen: once more.
        let session = server.until("begun", |status| sessions(status) == 1);
        if timeout(2 * DEADLINE, session).await.is_err() {
            continue;
        }
        // Nobody can be told, but nothing works for the request any more.
        server.until("ended", |status| sessions(status) == 0).await;
        let elapsed = began.elapsed();
        assert!(elapsed >= DEADLINE, "{elapsed:?}");
        return;
    }
}
