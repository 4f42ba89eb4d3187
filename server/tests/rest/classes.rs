//! Classes of texts, at the endpoints of vLLM and TEI, of a model with three classes: it has the
//! weights of the model of this repository that ranks, whose logit is `x`, and computes `x`, `-x`
//! and `0.25`.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::rest::{
    fields::shipped,
    support::{Reply, Setup, TestServer, read},
};
use graphmill_testkit::gguf::Gguf;

const LABELS: [&str; 3] = ["near", "far", "neither"];
const RANKS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../demos/tiny_embed/rerank.gguf"
);

/// Writes the model, with these names of its classes.
fn classifier(file: &Path, labels: &[String]) {
    let mut model = Gguf::parse(&fs::read(RANKS).expect("it is there")).expect("a model");
    model.set_texts("bert.classifier.output_labels", labels);
    let extents = model.extents();
    let width = model.tensor("cls.output.weight").dimensions[0] as usize;
    let read = |name: &str| -> Vec<f32> {
        let (numbers, _) = model.data[extents[name].clone()].as_chunks::<4>();
        numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()
    };
    let (weight, bias) = (read("cls.output.weight"), read("cls.output.bias")[0]);
    let weight = &weight[..width];
    let negative = weight.iter().map(|it| -it);
    let rows = weight.iter().copied().chain(negative);
    let rows: Vec<f32> = rows.chain(vec![0.0; width]).collect();
    // They are the last two.
    model.data.truncate(extents["cls.output.weight"].start);
    model.tensor("cls.output.weight").dimensions = vec![width as u64, 3];
    for (name, numbers) in [
        ("cls.output.weight", rows),
        ("cls.output.bias", vec![bias, -bias, 0.25]),
    ] {
        model.tensor(name).offset = model.data.len() as u64;
        let bytes = numbers.iter().flat_map(|it| it.to_le_bytes());
        model.data.extend(bytes);
        let padded = model.data.len().next_multiple_of(32);
        model.data.resize(padded, 0);
    }
    model.tensor("cls.output.bias").dimensions = vec![3];
    fs::write(file, model.bytes()).expect("writable");
}

/// The graph that ranks, with another model.
fn graph(file: &Path) -> String {
    let rank = shipped("rerank");
    let file = file.to_str().expect("UTF-8");
    let (begin, end) = rank.split_once("models_path: \"").expect("it has one");
    let (_, end) = end.split_once('"').expect("it ends");
    format!("{begin}models_path: \"{file}\"{end}")
}

/// A server with that model as `classes`, and the one that ranks as `rank`.
async fn server() -> TestServer {
    server_of(&LABELS.map(str::to_owned)).await
}

/// The same with other names of the classes.
async fn server_of(labels: &[String]) -> TestServer {
    let setup = Setup::new().graph("rank", &shipped("rerank"));
    let file = setup.path().join("classes.gguf");
    classifier(&file, labels);
    setup.graph("classes", &graph(&file)).start().await
}

async fn post(server: &TestServer, path: &str, body: &Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

/// The numbers of a list.
fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list}"));
    list.iter()
        .map(|it| it.as_f64().expect("a number"))
        .collect()
}

fn near(found: &[f64], wanted: &[f64]) {
    let is_near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-4;
    let all = found.len() == wanted.len() && found.iter().zip(wanted).all(is_near);
    assert!(all, "{found:?}, not {wanted:?}");
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let powers: Vec<f64> = logits.iter().map(|it| it.exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|it| it / sum).collect()
}

/// The logit of each text under the model that ranks.
async fn logits(server: &TestServer, texts: &Value) -> Vec<f64> {
    let body = json!({ "model": "rank", "input": texts, "use_activation": false });
    let answer = post(server, "/classify", &body).await.json();
    let data = answer["data"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    data.iter().map(|it| numbers(&it["probs"])[0]).collect()
}

#[tokio::test]
async fn each_text_has_the_probabilities_of_all_classes() {
    let server = server().await;
    let texts = json!(["What is a packet?", "Bye!"]);
    let logits = logits(&server, &texts).await;
    for path in ["/classify", "/v1/classify", "/v3/classify"] {
        let body = json!({ "model": "classes", "input": texts });
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let answer = reply.json();
        assert_eq!(
            (&answer["object"], &answer["model"]),
            (&json!("list"), &json!("classes"))
        );
        assert!(
            answer["id"]
                .as_str()
                .is_some_and(|id| id.starts_with("classify-"))
        );
        let usage = &answer["usage"];
        assert!(usage["prompt_tokens"].as_u64().is_some_and(|it| it > 4));
        assert_eq!(usage["prompt_tokens"], usage["total_tokens"]);
        for (index, logit) in logits.iter().enumerate() {
            let entry = &answer["data"][index];
            let probs = numbers(&entry["probs"]);
            near(&probs, &softmax(&[*logit, -logit, 0.25]));
            let likeliest = (0..3).max_by(|a, b| probs[*a].total_cmp(&probs[*b]));
            let label = LABELS[likeliest.expect("three")];
            assert_eq!(
                (&entry["index"], &entry["label"], &entry["num_classes"]),
                (&json!(index), &json!(label), &json!(3))
            );
        }
    }
    let body = json!({ "model": "classes", "input": "Bye!", "use_activation": false });
    let raw = post(&server, "/classify", &body).await.json();
    near(
        &numbers(&raw["data"][0]["probs"]),
        &[logits[1], -logits[1], 0.25],
    );
    // One class has a sigmoid.
    let body = json!({ "model": "rank", "input": "Bye!" });
    let one = post(&server, "/classify", &body).await.json();
    near(
        &numbers(&one["data"][0]["probs"]),
        &[1.0 / (1.0 + (-logits[1]).exp())],
    );
    assert_eq!(one["data"][0]["label"], "relevance");
}

#[tokio::test]
async fn classes_without_names_are_refused_with_the_key_of_the_names() {
    let setup = Setup::new();
    let file = setup.path().join("nameless.gguf");
    classifier(&file, &LABELS.map(str::to_owned));
    let mut model = Gguf::parse(&fs::read(&file).expect("it is there")).expect("a model");
    model.remove("bert.classifier.output_labels");
    fs::write(&file, model.bytes()).expect("writable");
    let server = setup.graph("nameless", &graph(&file)).start().await;
    let status = server.status().await;
    let why = status["graphs"][0]["reason"].as_str().expect("a reason");
    assert!(why.contains("classifier.output_labels"), "{why}");
}

#[tokio::test]
async fn a_prediction_has_the_likeliest_class_first() {
    let server = server().await;
    let predict = async |inputs: Value, more: Value| {
        let mut body = json!({ "model": "classes", "inputs": inputs });
        for (name, value) in more.as_object().expect("fields") {
            body[name] = value.clone();
        }
        post(&server, "/predict", &body).await
    };
    let logit = logits(&server, &json!(["Bye!"])).await[0];
    let alone = predict(json!("Bye!"), json!({})).await.json();
    let list = alone.as_array().expect("a list");
    let scores: Vec<f64> = list
        .iter()
        .map(|it| it["score"].as_f64().expect("a number"))
        .collect();
    assert!(scores.is_sorted_by(|one, other| one >= other), "{alone}");
    for (label, probability) in LABELS.iter().zip(softmax(&[logit, -logit, 0.25])) {
        let entry = list.iter().find(|it| it["label"] == *label);
        let score = entry
            .and_then(|it| it["score"].as_f64())
            .expect("it is there");
        near(&[score], &[probability]);
    }
    // A list of one text is that text, and a list of lists is answered with one.
    assert_eq!(predict(json!(["Bye!"]), json!({})).await.json(), alone);
    let both = predict(json!([["Bye!"], ["Bye!"]]), json!({})).await.json();
    let probabilities = |list: &Value| -> Vec<f64> {
        let list = list.as_array().expect("a list").iter();
        list.filter_map(|it| it["score"].as_f64()).collect()
    };
    assert_eq!(both.as_array().map(Vec::len), Some(2));
    near(&probabilities(&both[0]), &scores);
    near(&probabilities(&both[1]), &scores);
    let raw = predict(json!("Bye!"), json!({ "raw_scores": true }))
        .await
        .json();
    let score = |label: &str| {
        let list = raw.as_array().expect("a list").iter();
        let mut found = list.filter(|it| it["label"] == label);
        found
            .next()
            .and_then(|it| it["score"].as_f64())
            .expect("it is there")
    };
    near(&[score("near"), score("neither")], &[logit, 0.25]);
    // A pair is read as the model that ranks reads it.
    let pair = json!(["What is a packet?", "A packet is data."]);
    let question =
        json!({ "model": "rank", "query": pair[0], "texts": [pair[1]], "raw_scores": true });
    let ranked = post(&server, "/rerank", &question).await.json();
    let x = ranked[0]["score"]
        .as_f64()
        .unwrap_or_else(|| panic!("{ranked}"));
    let raw = predict(pair.clone(), json!({ "raw_scores": true }))
        .await
        .json();
    let found = raw
        .as_array()
        .expect("a list")
        .iter()
        .find(|it| it["label"] == "near");
    let found = found
        .and_then(|it| it["score"].as_f64())
        .expect("it is there");
    // The score was a probability in between.
    assert!((found - x).abs() < 0.05, "{raw} {ranked}");
    assert_eq!(
        predict(json!([pair]), json!({}))
            .await
            .json()
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn a_request_is_refused_whose_answer_has_no_room() {
    let server = server_of(&["a", "b", "c"].map(|name| name.repeat(16 << 20))).await;
    for (path, field) in [("/classify", "input"), ("/predict", "inputs")] {
        // Hundreds of gigabytes, if the answer named all classes of all texts.
        let texts: Vec<Value> = (0..4096)
            .map(|_| match path {
                "/predict" => json!(["Hi"]),
                _ => json!("Hi"),
            })
            .collect();
        let mut body = json!({ "model": "classes" });
        body[field] = texts.into();
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, 503, "{path}");
        assert!(reply.text.contains("memory"), "{path}: {}", reply.text);
        body[field] = "Hi".into();
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, 200, "{path}");
    }
}

#[tokio::test]
async fn what_has_no_classes_is_refused() {
    let server = server().await;
    let long = "word ".repeat(2_000);
    for (path, field, value, status, why) in [
        ("/classify", "input", json!(long), 400, "`input` has"),
        (
            "/classify",
            "input",
            json!(["Hi", long]),
            400,
            "`input[1]` has",
        ),
        ("/classify", "input", json!([]), 400, "`input`"),
        (
            "/classify",
            "messages",
            json!([{ "role": "user", "content": "Hi" }]),
            400,
            "`messages`",
        ),
        ("/predict", "inputs", json!(long), 422, "`inputs` has"),
        (
            "/predict",
            "inputs",
            json!(["Hi", long]),
            422,
            "`inputs` has",
        ),
        (
            "/predict",
            "inputs",
            json!([["Hi"], [long]]),
            422,
            "`inputs[1]` has",
        ),
        (
            "/predict",
            "inputs",
            json!(["a", "b", "c"]),
            422,
            "`inputs` must be a text, or a pair",
        ),
        (
            "/predict",
            "inputs",
            json!([["a", "b"], ["c"]]),
            422,
            "`inputs[1]` must be",
        ),
        ("/predict", "inputs", json!([]), 422, "`inputs`"),
        ("/predict", "inputs", json!([[]]), 422, "`inputs[0]`"),
        ("/predict", "inputs", json!({ "a": 1 }), 422, "`inputs`"),
        (
            "/predict",
            "truncation_direction",
            json!("left"),
            422,
            "`truncation_direction`",
        ),
    ] {
        let mut body = json!({ "model": "classes", "input": "Hi", "inputs": "Hi" });
        body[field] = value;
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, status, "{path} {field}: {}", reply.text);
        assert!(reply.text.contains(why), "{path} {field}: {}", reply.text);
    }
    for (path, body) in [
        (
            "/classify",
            json!({ "model": "classes", "input": long, "truncate_prompt_tokens": -1 }),
        ),
        (
            "/predict",
            json!({ "model": "classes", "inputs": long, "truncate": true }),
        ),
        (
            "/predict",
            json!({ "model": "classes", "inputs": ["Hi", long], "truncate": true }),
        ),
    ] {
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    // Three classes say nothing of how well a text answers.
    let body = json!({ "model": "classes", "query": "Hi", "documents": ["Bye"] });
    let reply = post(&server, "/v1/rerank", &body).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("model"))
    );
    assert!(reply.text.contains("3 classes"), "{}", reply.text);
    let models = server.get("/v1/models").await.json();
    let endpoints = |name: &str| {
        let list = models["data"].as_array().expect("a list").iter();
        let mut found = list.filter(|it| it["id"] == name);
        found.next().expect("it is listed")["endpoints"].clone()
    };
    assert_eq!(endpoints("classes"), json!(["/predict", "classify"]));
    let ranks = endpoints("rank");
    assert!(
        ranks.as_array().expect("a list").contains(&json!("rerank")),
        "{ranks}"
    );
    let info = async |name: &str| {
        let info = server.get(&format!("/info?model={name}")).await.json();
        assert_eq!(info["max_client_batch_size"], 4096, "{name}");
        info["model_type"].clone()
    };
    let kind = json!({ "classifier": {
        "id2label": { "0": "near", "1": "far", "2": "neither" },
        "label2id": { "near": 0, "far": 1, "neither": 2 },
    } });
    assert_eq!(info("classes").await, kind);
    let kind =
        json!({ "reranker": { "id2label": { "0": "relevance" }, "label2id": { "relevance": 0 } } });
    assert_eq!(info("rank").await, kind);
}
