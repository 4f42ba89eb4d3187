//! One request, however large, leaves room for others: places in the batches, places in the queue,
//! and the work before them.

use serde_json::{Value, json};

use crate::rest::support::{
    CHAT, Reply, Setup, TestServer, engine_numbers, question, read, sessions,
};

/// Generates without end, a step a millisecond, with these options beside four places.
async fn endless(options: &str) -> TestServer {
    let script = json!({ "name": "endless", "step_micros": 1000, "replies": [
        { "when": "brief", "text": "a word" },
        { "text": "on and on ", "then": "repeat" },
    ] });
    let graph = CHAT.replace("max_num_seqs: 4", &format!("max_num_seqs: 4 {options}"));
    Setup::new()
        .graph("chat", &graph)
        .script(&script)
        .start()
        .await
}

/// A request that is on its way until the value is dropped.
struct Open(tokio::task::JoinHandle<u16>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn open(server: &TestServer, path: &str, body: &Value) -> Open {
    // A connection of its own: dropping the request closes it.
    let request = crate::http::client()
        .post(format!("{}{path}", server.url))
        .body(body.to_string());
    Open(tokio::spawn(async move {
        let mut response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        while let Ok(Some(_)) = response.chunk().await {}
        status
    }))
}

fn prompts(count: usize) -> Value {
    let prompts: Vec<String> = (0..count)
        .map(|number| format!("prompt {number}"))
        .collect();
    json!({ "model": "chat", "prompt": prompts, "max_tokens": 3000, "stream": true })
}

async fn until_running(server: &TestServer, count: u64) {
    server
        .until("running", |status| engine_numbers(status)[0] == count)
        .await;
}

#[track_caller]
fn assert_full(reply: &Reply) {
    let error = &reply.json()["error"];
    assert_eq!(
        (reply.status, &error["code"]),
        (429, &json!("queue_full")),
        "{}",
        reply.text
    );
    // As long as slots take to be free, which the machine decides.
    let seconds = reply.header("retry-after").and_then(|it| it.parse().ok());
    assert!(seconds.is_some_and(|seconds: u32| seconds >= 1));
}

#[tokio::test]
async fn a_chat_is_answered_beside_a_request_of_hundreds_of_prompts() {
    let server = endless("").await;
    let bursts = [
        open(&server, "/v3/completions", &prompts(400)),
        open(&server, "/v3/completions", &prompts(400)),
    ];
    until_running(&server, 4).await;
    for _ in 0..3 {
        let reply = server.chat(&question("chat", "brief")).await;
        assert_eq!(
            reply.json()["choices"][0]["message"]["content"],
            "a word",
            "{}",
            reply.text
        );
        // Neither of the others has ended for it.
        assert_eq!(sessions(&server.status().await), 2);
    }
    drop(bursts);
    server.until_idle().await;
}

#[tokio::test]
async fn clients_without_keys_take_turns_by_their_addresses() {
    let server = endless("").await;
    let long = question("chat", "go");
    let busy: Vec<Open> = (0..20)
        .map(|_| open(&server, "/v3/chat/completions", &long))
        .collect();
    server
        .until("queued", |status| engine_numbers(status)[..2] == [4, 16])
        .await;
    let other = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let other = other.build().expect("a client");
    for _ in 0..3 {
        let request = other.post(format!("{}/v3/chat/completions", server.url));
        let reply = read(request.body(question("chat", "brief").to_string())).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    assert_eq!(
        sessions(&server.status().await),
        20,
        "none has ended for it"
    );
    drop(busy);
    server.until_idle().await;
}

#[tokio::test]
async fn choices_of_a_chat_take_turns_with_other_requests() {
    let server = endless("").await;
    let mut many = question("chat", "go");
    many["n"] = 19.into();
    let many = open(&server, "/v3/chat/completions", &many);
    until_running(&server, 4).await;
    let reply = server.chat(&question("chat", "brief")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(sessions(&server.status().await), 1);
    drop(many);
    server.until_idle().await;
}

#[tokio::test]
async fn more_prompts_than_the_queue_has_places_are_answered() {
    let server = endless("max_waiting: 4").await;
    let mut body = prompts(60);
    body["max_tokens"] = 3.into();
    body["stream"] = false.into();
    let reply = read(server.post("/v3/completions", body.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let choices = reply.json()["choices"].as_array().expect("choices").clone();
    let numbers: Vec<u64> = choices
        .iter()
        .map(|choice| choice["index"].as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers, (0..60).collect::<Vec<u64>>());
    server.until_idle().await;
}

#[tokio::test]
async fn a_prompt_that_can_never_run_is_refused_before_the_answer_begins() {
    let server = endless("max_waiting: 4").await;
    let mut body = prompts(60);
    body["prompt"][59] = "x".repeat(5_000).into();
    let reply = read(server.post("/v3/completions", body.to_string())).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    server.until_idle().await;
}

#[tokio::test]
async fn one_request_leaves_places_in_the_queue() {
    let server = endless("max_waiting: 8").await;
    let burst = open(&server, "/v3/completions", &prompts(400));
    server
        .until("half of what is left of the queue", |status| {
            engine_numbers(status)[..2] == [4, 3]
        })
        .await;
    // The others are not refused, and are served.
    let briefs = (0..3).map(|_| async { server.chat(&question("chat", "brief")).await.status });
    let answers = futures_util::future::join_all(briefs).await;
    assert_eq!(answers, [200; 3]);
    drop(burst);
    server.until_idle().await;
}

#[tokio::test]
async fn a_full_queue_refuses_before_the_prompt_is_made() {
    // The template refuses all conversations of this kind, but nobody gets as far.
    let template =
        "{% if messages[0]['content'] == 'never' %}{{ raise_exception('rendered') }}{% endif %}x";
    let script = json!({ "name": "endless", "step_micros": 1000, "chat_template": template });
    let graph = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 1 max_waiting: 1");
    let server = Setup::new()
        .graph("chat", &graph)
        .script(&script)
        .start()
        .await;
    let refused = server.chat(&question("chat", "never")).await;
    assert!(refused.text.contains("rendered"), "{}", refused.text);
    let running = open(&server, "/v3/chat/completions", &question("chat", "go"));
    until_running(&server, 1).await;
    let waiting = open(&server, "/v3/chat/completions", &question("chat", "go"));
    server
        .until("waiting", |status| engine_numbers(status)[1] == 1)
        .await;
    for _ in 0..20 {
        assert_full(&server.chat(&question("chat", "never")).await);
    }
    let status = server.status().await;
    let engine = &status["engines"][0];
    assert_eq!(
        (&engine["refused"], &engine["requests_preparing"]),
        (&json!(20), &json!(0)),
        "{engine:#}"
    );
    let metrics = server.get("/metrics").await.text;
    let refusals = "graphmill_queue_refusals_total{graph=\"chat\",model=\"endless\"} 20";
    assert!(metrics.contains(refusals), "{metrics}");
    // Nodes of the two that are open close in jobs, which a busy machine runs some time.
    server
        .until("no job waits", |status| {
            status["graphs"][0]["jobs_waiting"] == 0
        })
        .await;
    drop((running, waiting));
    server.until_idle().await;
    // The places are there again.
    let mut brief = question("chat", "go");
    brief["max_tokens"] = 2.into();
    assert_eq!(server.chat(&brief).await.status, 200);
}

#[tokio::test]
async fn requests_that_fail_on_their_way_give_their_places_back() {
    let server = endless("max_waiting: 2").await;
    let mut wrong = question("chat", "brief");
    wrong["guided_regex"] = "(".into();
    for _ in 0..5 {
        let reply = server.chat(&wrong).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
    }
    assert_eq!(server.chat(&question("chat", "brief")).await.status, 200);
    let status = server.until("idle", |status| sessions(status) == 0).await;
    assert_eq!(status["engines"][0]["requests_preparing"], 0);
}

#[tokio::test]
async fn priorities_are_bounded_by_the_graph() {
    for (options, bound) in [("", 10), ("min_priority: -3 max_priority: 3", 3)] {
        let server = endless(options).await;
        for priority in [-bound, 0, bound] {
            let mut body = question("chat", "brief");
            body["priority"] = priority.into();
            let reply = server.chat(&body).await;
            assert_eq!(reply.status, 200, "{priority}: {}", reply.text);
        }
        for priority in [-bound - 1, bound + 1, i32::MIN, i32::MAX] {
            let mut body = question("chat", "brief");
            body["priority"] = priority.into();
            let reply = server.chat(&body).await;
            let error = &reply.json()["error"];
            assert_eq!(
                (reply.status, &error["param"]),
                (400, &json!("priority")),
                "{priority}: {}",
                reply.text
            );
            let range = format!("between -{bound} and {bound}");
            assert!(reply.text.contains(&range), "{}", reply.text);
        }
    }
}
