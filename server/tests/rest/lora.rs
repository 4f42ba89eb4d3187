//! Adapters that are loaded and unloaded while the server runs, with the model and the adapter of
//! this repository.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use graphmill_server::KeySource;
use serde_json::{Value, json};

use crate::rest::{
    isolation::text,
    keys,
    logging::Logging,
    support::{CHAT, Reply, Setup, TestServer, question, read, streamed},
};
use graphmill_testkit::gguf::Gguf;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_chat");

/// The published graph on the model of this repository.
fn tiny(more: &str) -> String {
    let named = format!("models_path: \"{TINY}/model.gguf\", max_context: 512, {more}");
    CHAT.replace("models_path: \"../model.script.json\",", &named)
}

/// A graph of the model without adapters, and one with the adapter in its file. The folder of
/// adapters has that one as `nova/adapter.gguf`.
fn setup() -> (Setup, PathBuf) {
    let own = format!("lora_adapters {{ path: \"{TINY}/adapters/ahoy.gguf\" }}");
    let setup = Setup::new()
        .graph("chat", &tiny(""))
        .graph("other", &tiny(&own));
    let folder = setup.path().join("adapters");
    fs::create_dir_all(folder.join("nova")).expect("writable");
    fs::copy(
        format!("{TINY}/adapters/ahoy.gguf"),
        folder.join("nova/adapter.gguf"),
    )
    .expect("writable");
    let allowed = folder.clone();
    (
        setup.with(move |options| options.runtime_lora = Some(allowed)),
        folder,
    )
}

async fn post(server: &TestServer, path: &str, body: &Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

async fn load(server: &TestServer, body: &Value) -> Reply {
    post(server, "/v1/load_lora_adapter", body).await
}

async fn unload(server: &TestServer, name: &str) -> Reply {
    post(
        server,
        "/v1/unload_lora_adapter",
        &json!({ "lora_name": name }),
    )
    .await
}

/// A request that loads the adapter for one of the two graphs.
fn nova() -> Value {
    json!({ "lora_name": "nova", "lora_path": "nova", "base_model_name": "chat" })
}

fn short(mut body: Value) -> Value {
    body["max_tokens"] = 24.into();
    body
}

async fn answer(server: &TestServer, model: &str) -> String {
    let reply = server.chat(&short(question(model, "Hello!"))).await;
    assert_eq!(reply.status, 200, "{model}: {}", reply.text);
    let content = &reply.json()["choices"][0]["message"]["content"];
    content.as_str().expect("a text").to_owned()
}

/// The ids, parents and roots of the models that are listed.
async fn listed(server: &TestServer) -> Vec<[Value; 3]> {
    let list = server.get("/v1/models").await.json();
    let models = list["data"].as_array().expect("a list").iter();
    models
        .map(|model| ["id", "parent", "root"].map(|name| model[name].clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adapter_is_loaded_under_traffic_and_unloaded() {
    let (setup, folder) = setup();
    let folder = folder.canonicalize().expect("it is there");
    let server = setup.start().await;
    let (plain, adapted) = (
        answer(&server, "chat").await,
        answer(&server, "other:ahoy").await,
    );
    assert!(adapted.starts_with("Ahoy!"), "{adapted}");
    assert_ne!(plain, adapted);
    let stream = || {
        let body = short(streamed("chat", "Hello!"));
        tokio::spawn(read(server.post("/v3/chat/completions", body.to_string())))
    };
    let before: Vec<_> = (0..8).map(|_| stream()).collect();
    let reply = load(&server, &nova()).await;
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (200, "Success: LoRA adapter 'nova' added successfully.")
    );
    let kind = reply.header("content-type").expect("a type");
    assert!(kind.starts_with("text/plain"), "{kind}");
    for model in ["nova", "chat:nova"] {
        assert_eq!(answer(&server, model).await, adapted, "{model}");
    }
    assert_eq!(answer(&server, "chat").await, plain);
    for stream in before {
        let reply = stream.await.expect("it ends");
        assert_eq!(text(&reply.events()), plain);
    }
    let root = json!(folder.join("nova/adapter.gguf"));
    assert!(
        listed(&server)
            .await
            .contains(&[json!("nova"), json!("chat"), root])
    );
    let one = server.get("/v1/models/nova").await.json();
    assert_eq!(
        (&one["id"], &one["parent"]),
        (&json!("nova"), &json!("chat"))
    );
    let adapters = server.get("/lora-adapters?model=chat").await.json();
    assert_eq!(
        (&adapters[0]["name"], &adapters[0]["scale"]),
        (&json!("nova"), &json!(1.0))
    );
    // It stays while the graph is not in memory, and where the configuration is read again.
    let unloaded = post(&server, "/models/unload", &json!({ "model": "chat" })).await;
    assert_eq!(unloaded.status, 200, "{}", unloaded.text);
    assert_eq!(listed(&server).await.len(), 4);
    assert_eq!(answer(&server, "nova").await, adapted);
    let reloaded = post(&server, "/v1/config/reload", &json!({})).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    assert_eq!(answer(&server, "nova").await, adapted);

    let again = load(&server, &nova()).await;
    assert_eq!(
        (again.status, &again.json()["error"]["param"]),
        (400, &json!("lora_name"))
    );
    assert!(again.text.contains("`load_inplace`"), "{}", again.text);
    // Fields of vLLM that have no effect.
    let mut in_place = nova();
    in_place["load_inplace"] = true.into();
    in_place["is_3d_lora_weight"] = false.into();
    in_place["lora_int_id"] = 1.into();
    assert_eq!(load(&server, &in_place).await.status, 200);
    assert_eq!(answer(&server, "nova").await, adapted);

    let during: Vec<_> = (0..4).map(|_| stream()).collect();
    let reply = unload(&server, "nova").await;
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (200, "Success: LoRA adapter 'nova' removed successfully.")
    );
    for stream in during {
        let reply = stream.await.expect("it ends");
        assert_eq!(text(&reply.events()), plain);
    }
    assert_eq!(
        server.chat(&question("nova", "Hello!")).await.status,
        404,
        "it is gone"
    );
    assert_eq!(answer(&server, "chat").await, plain);
    let gone = unload(&server, "nova").await;
    assert_eq!(
        (gone.status, &gone.json()["error"]["param"]),
        (404, &json!("lora_name"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scales_of_requests_change_one_text_each() {
    let server = setup().0.start().await;
    let prompt = "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n";
    let ask = |model: &str, lora: Value| {
        let body = json!({ "model": model, "prompt": prompt, "n_predict": 24, "temperature": 0, "lora": lora });
        let request = server.post("/completion", body.to_string());
        async { read(request).await.json()["content"].clone() }
    };
    let plain = ask("chat", json!([])).await;
    let whole = ask("other:ahoy", json!([])).await;
    let scaled = |scale: f64| ask("other", json!([{ "id": 0, "scale": scale }]));
    let half = scaled(0.5).await;
    // All at once, in one batch.
    let together = tokio::join!(scaled(0.0), scaled(0.5), scaled(1.0), scaled(0.5));
    assert_eq!(together, (plain.clone(), half.clone(), whole.clone(), half));
    assert_ne!(plain, whole);
}

#[tokio::test]
async fn what_is_no_adapter_for_the_graph_is_refused() {
    let (setup, folder) = setup();
    let outside = setup.path().join("outside.gguf");
    fs::copy(format!("{TINY}/adapters/ahoy.gguf"), &outside).expect("writable");
    symlink(&outside, folder.join("link.gguf")).expect("writable");
    fs::create_dir(folder.join("linked")).expect("writable");
    symlink(&outside, folder.join("linked/adapter.gguf")).expect("writable");
    symlink(format!("{TINY}/model.gguf"), folder.join("away.gguf")).expect("writable");
    fs::copy(format!("{TINY}/model.gguf"), folder.join("model.gguf")).expect("writable");
    fs::create_dir(folder.join("empty")).expect("writable");
    let mut other = Gguf::parse(&fs::read(&outside).expect("it is there")).expect("a model");
    other.set_text("general.architecture", "qwen3");
    fs::write(folder.join("qwen3.gguf"), other.bytes()).expect("writable");
    let mut longer = Gguf::parse(&fs::read(&outside).expect("it is there")).expect("a model");
    let tensor = longer.tensor("blk.0.attn_q.weight.lora_a");
    tensor.dimensions[0] /= 2;
    fs::write(folder.join("shape.gguf"), longer.bytes()).expect("writable");
    let server = setup.start().await;
    let outside = outside.to_str().expect("UTF-8");
    for (field, value, status, param, why) in [
        ("lora_name", json!(""), 400, "lora_name", "no colon"),
        ("lora_name", json!("a:b"), 400, "lora_name", "no colon"),
        ("lora_name", json!("other"), 400, "lora_name", "already"),
        ("lora_name", json!("ahoy"), 400, "lora_name", "already"),
        (
            "lora_name",
            json!("a\nb: done"),
            400,
            "lora_name",
            "no control",
        ),
        (
            "lora_name",
            json!("a\u{202e}b"),
            400,
            "lora_name",
            "no control",
        ),
        (
            "lora_name",
            json!("a".repeat(201)),
            400,
            "lora_name",
            "200 bytes",
        ),
        ("lora_name", json!(7), 400, "lora_name", "string"),
        ("lora_path", json!("none"), 404, "lora_path", "nothing in"),
        (
            "lora_path",
            json!("../outside.gguf"),
            404,
            "lora_path",
            "nothing in",
        ),
        ("lora_path", json!(outside), 404, "lora_path", "nothing in"),
        (
            "lora_path",
            json!("link.gguf"),
            404,
            "lora_path",
            "nothing in",
        ),
        ("lora_path", json!("linked"), 404, "lora_path", "nothing in"),
        (
            "lora_path",
            json!("away.gguf"),
            404,
            "lora_path",
            "nothing in",
        ),
        ("lora_path", json!("empty"), 400, "lora_path", "no `.gguf`"),
        (
            "lora_path",
            json!("model.gguf"),
            400,
            "lora_path",
            "no LoRA adapter",
        ),
        (
            "lora_path",
            json!("qwen3.gguf"),
            400,
            "lora_path",
            "does not fit",
        ),
        (
            "lora_path",
            json!("shape.gguf"),
            400,
            "lora_path",
            "not changed",
        ),
        (
            "base_model_name",
            json!("nobody"),
            404,
            "base_model_name",
            "does not exist",
        ),
        (
            "base_model_name",
            Value::Null,
            400,
            "base_model_name",
            "several graphs",
        ),
    ] {
        let mut body = nova();
        body[field] = value.clone();
        let reply = load(&server, &body).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (status, &json!(param)),
            "{field} {value}: {error}"
        );
        assert!(reply.text.contains(why), "{field} {value}: {error}");
    }
    for field in ["lora_name", "lora_path"] {
        let mut body = nova();
        body.as_object_mut().expect("an object").remove(field);
        let error = load(&server, &body).await.json()["error"].clone();
        assert_eq!(error["param"], field, "{error}");
        assert_eq!(error["code"], "missing_required_parameter", "{error}");
        assert_eq!(error["message"], format!("`{field}` is missing"), "{error}");
    }
    let own = unload(&server, "ahoy").await;
    assert_eq!(own.status, 404, "{}", own.text);
    assert!(own.text.contains("graph's file"), "{}", own.text);
    // What was refused changed nothing.
    assert_eq!(listed(&server).await.len(), 3);
    answer(&server, "chat").await;
    assert_eq!(load(&server, &nova()).await.status, 200);
}

#[tokio::test]
async fn adapters_are_loaded_by_operators_where_a_folder_is_named() {
    let setup = Setup::new().graph("chat", CHAT).script(&json!({}));
    let server = setup.start().await;
    for path in ["/v1/load_lora_adapter", "/v1/unload_lora_adapter"] {
        let reply = post(&server, path, &nova()).await;
        assert_eq!(reply.status, 403, "{path}: {}", reply.text);
        assert!(reply.text.contains("`--runtime_lora`"), "{}", reply.text);
    }
    let server = keys::server(&json!([{ "name": "one", "key": "k-one" }])).await;
    let reply = keys::post(&server, "k-one", "/v1/load_lora_adapter", &nova()).await;
    assert_eq!(keys::code(&reply), keys::is(403, "permission_denied"));
}

/// A server with two graphs of a script, whose folder of adapters has `0.gguf` to `3.gguf`.
async fn scripted(keys: &Value) -> (TestServer, PathBuf) {
    let setup = Setup::new().graph("chat", CHAT).graph("other", CHAT);
    let setup = setup.script(&json!({ "replies": [{ "text": "abc" }] }));
    let folder = setup.path().join("adapters");
    fs::create_dir(&folder).expect("writable");
    for number in 0..4 {
        let file = folder.join(format!("{number}.gguf"));
        fs::copy(format!("{TINY}/adapters/ahoy.gguf"), file).expect("writable");
    }
    let file = setup.path().join("keys.json");
    fs::write(&file, json!({ "keys": keys }).to_string()).expect("writable");
    let (allowed, has_keys) = (folder.clone(), keys.is_array());
    let setup = setup.with(move |options| {
        options.runtime_lora = Some(allowed);
        options.keys = has_keys.then_some(KeySource::File(file));
    });
    (setup.start().await, folder)
}

fn numbered(name: &str, number: usize, graph: &str) -> Value {
    json!({ "lora_name": name, "lora_path": format!("{number}.gguf"), "base_model_name": graph })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_loads_and_unloads_at_once_one_succeeds() {
    let (server, _) = scripted(&Value::Null).await;
    for graphs in [["chat", "chat"], ["chat", "other"]] {
        let bodies: Vec<Value> = (0..4)
            .map(|at| numbered("same", at, graphs[at % 2]))
            .collect();
        let loads = bodies.iter().map(|body| load(&server, body));
        let replies = futures_util::future::join_all(loads).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 400, 400, 400], "{graphs:?}");
        for reply in replies.iter().filter(|reply| reply.status == 400) {
            assert_eq!(reply.json()["error"]["param"], "lora_name");
        }
        let unloads = (0..4).map(|_| unload(&server, "same"));
        let replies = futures_util::future::join_all(unloads).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404, 404, 404], "{graphs:?}");
    }
}

#[tokio::test]
async fn a_graph_gets_a_limited_number_of_adapters() {
    let (server, _) = scripted(&Value::Null).await;
    for number in 0..64 {
        let reply = load(&server, &numbered(&format!("n{number}"), 0, "chat")).await;
        assert_eq!(reply.status, 200, "{number}: {}", reply.text);
    }
    let reply = load(&server, &numbered("more", 0, "chat")).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("lora_name"))
    );
    assert!(reply.text.contains("at most 64"), "{}", reply.text);
    let mut in_place = numbered("n0", 1, "chat");
    in_place["load_inplace"] = true.into();
    assert_eq!(load(&server, &in_place).await.status, 200);
    let elsewhere = load(&server, &numbered("more", 0, "other")).await;
    assert_eq!(elsewhere.status, 200, "{}", elsewhere.text);
}

#[tokio::test]
async fn an_adapter_is_unloaded_when_files_are_gone() {
    let (setup, folder) = setup();
    let server = setup.start().await;
    for name in ["one", "two", "three"] {
        let file = folder.join(format!("{name}.gguf"));
        fs::copy(folder.join("nova/adapter.gguf"), file).expect("writable");
        let path = format!("{name}.gguf");
        let body = json!({ "lora_name": name, "lora_path": path, "base_model_name": "chat" });
        assert_eq!(load(&server, &body).await.status, 200, "{name}");
    }
    for name in ["one", "two"] {
        fs::remove_file(folder.join(format!("{name}.gguf"))).expect("it is there");
    }
    let reply = unload(&server, "one").await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    // The other one without a file is gone, too.
    let names: Vec<Value> = (listed(&server).await.into_iter())
        .map(|[name, ..]| name)
        .collect();
    assert!(names.contains(&json!("three")), "{names:?}");
    assert!(!names.contains(&json!("two")), "{names:?}");
    answer(&server, "three").await;
    let reloaded = post(&server, "/v1/config/reload", &json!({})).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
}

#[tokio::test]
async fn a_key_changes_only_graphs_that_it_may_use() {
    let (server, _) = scripted(&json!([
        { "name": "all", "key": "k-all", "scopes": ["admin", "infer", "metrics"] },
        { "name": "other", "key": "k-other", "scopes": ["admin", "infer"], "models": ["other*"] },
    ]))
    .await;
    let loaded = "/v1/load_lora_adapter";
    let body = numbered("nova", 0, "chat");
    let reply = keys::post(&server, "k-all", loaded, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let name = json!({ "lora_name": "nova" });
    let unloaded = "/v1/unload_lora_adapter";
    let reply = keys::post(&server, "k-other", unloaded, &name).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
    let reply = keys::post(&server, "k-other", "/sleep", &json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let states = keys::get(&server, "k-all", "/v1/config").await.json();
    assert_eq!(
        states["chat"]["model_version_status"][0]["state"], "AVAILABLE",
        "{states}"
    );
    let reply = keys::post(&server, "k-all", unloaded, &name).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

/// A model of a script has any adapter.
#[tokio::test]
async fn an_adapter_stays_when_its_graph_changes() {
    let setup = Setup::new().graph("chat", CHAT);
    let script = json!({ "replies": [{ "text": "abc" }] });
    let (setup, root) = (setup.script(&script), PathBuf::from(TINY).join("adapters"));
    let file = setup.path().join("0/graph.pbtxt");
    let setup = setup.with(move |options| options.runtime_lora = Some(root));
    let server = setup.start().await;
    let body = json!({ "lora_name": "nova", "lora_path": "ahoy.gguf" });
    let loaded = load(&server, &body).await;
    assert_eq!(loaded.status, 200, "{}", loaded.text);
    assert_eq!(answer(&server, "nova").await, "bcd");
    let own = "max_num_seqs: 2 lora_adapters { name: \"one\" path: \"one.gguf\" }";
    write(&file, &CHAT.replace("max_num_seqs: 4", own));
    let reloaded = post(&server, "/v1/config/reload", &json!({})).await;
    assert_eq!(reloaded.status, 201, "{}", reloaded.text);
    // It is behind those of the file.
    assert_eq!(answer(&server, "chat:one").await, "bcd");
    assert_eq!(answer(&server, "nova").await, "cde");
    // A file that names one of the same name is refused.
    write(
        &file,
        &CHAT.replace("max_num_seqs: 4", &own.replace("\"one\"", "\"nova\"")),
    );
    let refused = post(&server, "/v1/config/reload", &json!({})).await;
    assert_eq!(refused.status, 412, "{}", refused.text);
    assert!(refused.text.contains("two adapters"), "{}", refused.text);
    assert_eq!(answer(&server, "nova").await, "cde");
}

#[tokio::test]
async fn tensors_of_adapters_are_not_logged_one_by_one() {
    let setup = setup().0;
    let said = Logging::start(&setup.config(), &[]).all_it_says();
    let about_adapters = said.lines().filter(|line| line.contains("adapter_lora"));
    assert_eq!(about_adapters.count(), 0, "{said}");
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).expect("writable");
}
