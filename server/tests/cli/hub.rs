//! Models by name, from a hub on this machine.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::{Value, json};

use crate::cli::stand_in_hub::{COMMIT, Hub, REPOSITORY, sha256};
use crate::cli::support::{MODEL, Server, command, path, text};

/// Some bytes that repeat late.
fn bytes(seed: u8) -> Vec<u8> {
    (0..200_000_u32)
        .map(|at| (at / 250 + at) as u8 ^ seed)
        .collect()
}

fn run(hub: &Hub, home: &Path, arguments: &[&str]) -> Output {
    run_with(hub, home, arguments, &[])
}

fn run_with(hub: &Hub, home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = command(arguments);
    hub.serves(&mut command, home);
    command.envs(variables.iter().copied());
    command.output().expect("it runs")
}

/// Runs a command that has to succeed, and returns what it prints.
fn done(hub: &Hub, home: &Path, arguments: &[&str]) -> String {
    let output = run(hub, home, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Runs a command that has to fail, and returns what it says.
fn fails(hub: &Hub, home: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run_with(hub, home, arguments, variables);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn folder(home: &Path) -> PathBuf {
    home.join("hub/models--org--model-GGUF")
}

/// The names of the files that are kept of a repository.
fn blobs(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder(home).join("blobs"))
        .into_iter()
        .flatten();
    let names = entries.map(|entry| entry.expect("readable").file_name());
    names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect()
}

#[test]
fn a_model_is_pulled_once_into_the_shared_cache_listed_and_removed() {
    let (small, large) = (bytes(1), bytes(2));
    let hub = Hub::start(&[
        ("m-Q4_K_M.gguf", &small),
        ("m-Q8_0.gguf", &large),
        ("README.md", b"words"),
        ("../../outside-Q4_K_M.gguf", b"no"),
        ("\u{1b}[2J\nerror: Q4_K_M.gguf", b"no"),
    ]);
    let home = home();
    for fetched in [1, 1] {
        let printed = done(&hub, home.path(), &["pull", REPOSITORY]);
        let file = folder(home.path())
            .join("snapshots")
            .join(COMMIT)
            .join("m-Q4_K_M.gguf");
        assert_eq!(printed, format!("{}\n", file.display()));
        assert_eq!(fs::read(&file).expect("there"), small);
        let link = fs::read_link(&file).expect("a link");
        assert_eq!(
            link,
            PathBuf::from(format!("../../blobs/{}", sha256(&small)))
        );
        assert_eq!(hub.fetches().len(), fetched);
    }
    let main = fs::read_to_string(folder(home.path()).join("refs/main"));
    assert_eq!(main.expect("there"), COMMIT);
    done(&hub, home.path(), &["pull", &format!("{REPOSITORY}:Q8_0")]);
    let listed = done(&hub, home.path(), &["list"]);
    for file in ["m-Q4_K_M.gguf", "m-Q8_0.gguf"] {
        let line = listed
            .lines()
            .find(|line| line.contains(file))
            .expect(&listed);
        assert!(
            line.starts_with(REPOSITORY) && line.ends_with(" 200 kB"),
            "{line}"
        );
    }
    let listed = done(&hub, home.path(), &["list", "--format", "json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_eq!(listed[0]["bytes"], 200_000);
    done(&hub, home.path(), &["rm", &format!("{REPOSITORY}:Q8_0")]);
    assert_eq!(blobs(home.path()), [sha256(&small)]);
    let said = fails(
        &hub,
        home.path(),
        &["rm", &format!("{REPOSITORY}:Q8_0")],
        &[],
    );
    assert!(said.contains("is not in the cache"), "{said}");
    done(&hub, home.path(), &["rm", REPOSITORY]);
    assert!(!folder(home.path()).exists());
    assert_eq!(done(&hub, home.path(), &["list"]), "");
}

#[test]
fn files_that_others_use_are_not_removed() {
    let hub = Hub::start(&[("m-Q8_0.gguf", &bytes(1)), ("copy-Q6_K.gguf", &bytes(1))]);
    let home = home();
    for kind in ["Q8_0", "Q6_K"] {
        done(
            &hub,
            home.path(),
            &["pull", &format!("{REPOSITORY}:{kind}")],
        );
    }
    let snapshot = folder(home.path()).join("snapshots").join(COMMIT);
    let elsewhere = home.path().join("mine.gguf");
    fs::write(&elsewhere, "mine").expect("writable");
    symlink(&elsewhere, snapshot.join("mine-Q4_0.gguf")).expect("writable");
    symlink(&elsewhere, snapshot.join("\u{1b}[2J\n-Q5_0.gguf")).expect("writable");
    let listed = done(&hub, home.path(), &["list"]);
    assert!(
        !listed.contains('\u{1b}') && listed.lines().count() == 4,
        "{listed}"
    );
    let other = format!("{REPOSITORY}:Q2_K");
    let offline = [("HF_HUB_OFFLINE", "1")];
    let said = fails(&hub, home.path(), &["pull", &other], &offline);
    assert!(!said.contains('\u{1b}') && said.contains("Q5_0"), "{said}");
    for kind in ["Q4_0", "Q8_0"] {
        done(&hub, home.path(), &["rm", &format!("{REPOSITORY}:{kind}")]);
    }
    assert_eq!(fs::read(&elsewhere).expect("there"), b"mine");
    let copy = fs::read(snapshot.join("copy-Q6_K.gguf"));
    assert_eq!(copy.expect("there"), bytes(1));
    done(&hub, home.path(), &["rm", &format!("{REPOSITORY}:Q6_K")]);
    assert_eq!(blobs(home.path()), [""; 0]);
}

#[test]
fn all_parts_and_the_projector_come_along() {
    let all: Vec<Vec<u8>> = (0..4).map(bytes).collect();
    let names = [
        "Q8_0/m-Q8_0-00001-of-00002.gguf",
        "Q8_0/m-Q8_0-00002-of-00002.gguf",
        "mmproj-F32.gguf",
        "mmproj-F16.gguf",
    ];
    let files: Vec<(&str, &[u8])> = names
        .iter()
        .zip(&all)
        .map(|(name, file)| (*name, &file[..]))
        .collect();
    let hub = Hub::start(&files);
    let home = home();
    let printed = done(&hub, home.path(), &["pull", &format!("{REPOSITORY}:q8_0")]);
    let printed: Vec<PathBuf> = printed.lines().map(PathBuf::from).collect();
    assert!(
        printed[0].ends_with(names[0]) && printed[1].ends_with(names[3]),
        "{printed:?}"
    );
    assert_eq!(fs::read(&printed[1]).expect("there"), all[3]);
    let second = printed[0].with_file_name("m-Q8_0-00002-of-00002.gguf");
    assert_eq!(fs::read(second).expect("there"), all[1]);
    assert_eq!(hub.fetches().len(), 3);
    // What is listed can be removed by its name, and the last model takes its projector with it.
    let projector = format!("{REPOSITORY}:mmproj-F16.gguf");
    done(&hub, home.path(), &["rm", &projector]);
    assert!(!done(&hub, home.path(), &["list"]).contains("mmproj"));
    done(&hub, home.path(), &["pull", &format!("{REPOSITORY}:q8_0")]);
    done(&hub, home.path(), &["rm", &format!("{REPOSITORY}:q8_0")]);
    assert_eq!(done(&hub, home.path(), &["list"]), "");
    let offline = [("HF_HUB_OFFLINE", "1")];
    let said = fails(&hub, home.path(), &["pull", REPOSITORY], &offline);
    assert!(said.contains("is not in the cache"), "{said}");
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_was_and_the_token_stays_with_the_hub() {
    let file = bytes(3);
    let hub = Hub::start(&[("m.gguf", &file)]);
    hub.state().cuts = vec![50_000, 0, 70_000];
    hub.state().token = Some("secret");
    let home = home();
    let output = run_with(
        &hub,
        home.path(),
        &["pull", REPOSITORY],
        &[("HF_TOKEN", "secret")],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read(text(&output.stdout).trim()).expect("there"), file);
    let ranges: Vec<_> = hub.fetches().iter().map(|fetch| fetch.range).collect();
    assert_eq!(ranges, [None, Some(50_000), Some(50_000), Some(120_000)]);
    for request in &hub.state().requests {
        assert_eq!(request.has_token, request.is_hub, "{request:?}");
    }
    assert_eq!(blobs(home.path()), [sha256(&file)]);
}

#[test]
fn what_is_here_is_kept_for_the_next_download_also_where_ranges_are_unknown() {
    for ignores_ranges in [false, true] {
        let file = bytes(4);
        let hub = Hub::start(&[("m.gguf", &file)]);
        hub.state().cuts = vec![60_000];
        hub.state().files_end = Some((1, "404 Not Found"));
        let home = home();
        let said = fails(&hub, home.path(), &["pull", REPOSITORY], &[]);
        assert!(said.contains("or not this file"), "{said}");
        assert_eq!(
            blobs(home.path()),
            [format!("{}.incomplete", sha256(&file))]
        );
        hub.state().files_end = None;
        hub.state().ignores_ranges = ignores_ranges;
        let printed = done(&hub, home.path(), &["pull", REPOSITORY]);
        assert_eq!(fs::read(printed.trim()).expect("there"), file);
        assert_eq!(hub.fetches()[1].range, Some(60_000));
    }
}

#[test]
fn a_wrong_sum_or_length_is_an_error_and_nothing_is_kept() {
    let file = bytes(5);
    for told in [(sha256(b"other"), 200_000), (sha256(&file), 199_999)] {
        let hub = Hub::start(&[("m.gguf", &file)]);
        hub.state().told.insert("m.gguf".to_owned(), told.clone());
        let home = home();
        let said = fails(&hub, home.path(), &["pull", REPOSITORY], &[]);
        assert!(said.contains("`m.gguf`"), "{said}");
        assert!(
            said.contains("is damaged: its checksum is") || said.contains("is larger"),
            "{said}"
        );
        let kept = fs::read_dir(folder(home.path()).join("blobs")).expect("there");
        let kept: u64 = kept
            .map(|it| it.expect("readable").metadata().expect("there").len())
            .sum();
        assert_eq!(kept, 0);
        assert!(!folder(home.path()).join("snapshots").exists());
    }
}

#[test]
fn refusals_say_what_to_do() {
    let file = bytes(6);
    let hub = Hub::start(&[("m-Q8_0.gguf", &file), ("m-Q6_K.gguf", &file)]);
    let home = home();
    let pull = ["pull", REPOSITORY];
    let expect = |arguments: &[&str], token: &str, said: &[&str]| {
        let error = fails(&hub, home.path(), arguments, &[("HF_TOKEN", token)]);
        for part in said {
            assert!(error.contains(part), "{part} in {error}");
        }
    };
    expect(
        &pull,
        "",
        &["has no `Q4_K_M`", "org/model-GGUF:m-Q8_0.gguf (200 kB)"],
    );
    expect(
        &["pull", "org/other"],
        "",
        &["does not have the repository `org/other`"],
    );
    hub.state().token = Some("right");
    expect(
        &pull,
        "",
        &["set HF_TOKEN to a token of an account that may read it"],
    );
    expect(&pull, "wrong", &["the token in HF_TOKEN has no access to"]);
    hub.state().error_code = "GatedRepo";
    expect(
        &pull,
        "",
        &[
            "is gated: accept its terms at http://127.0.0.1",
            "set HF_TOKEN",
        ],
    );
    expect(
        &pull,
        "wrong",
        &["the account of the token in HF_TOKEN has no access"],
    );
    // As `hf auth login` leaves it.
    fs::write(home.path().join("token"), "right\n").expect("writable");
    expect(&pull, "", &["has no `Q4_K_M`"]);
    let told = (sha256(&file), 1 << 60);
    hub.state().told.insert("m-Q8_0.gguf".to_owned(), told);
    let large = format!("{REPOSITORY}:Q8_0");
    expect(
        &["pull", &large],
        "right",
        &["does not fit", "HF_HOME names another folder"],
    );
    let output = run(&hub, home.path(), &["pull", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is not a model name"));
    assert!(hub.fetches().is_empty());
}

#[test]
fn the_cache_serves_without_the_hub() {
    let file = bytes(7);
    let hub = Hub::start(&[("m-Q8_0.gguf", &file)]);
    let home = home();
    let offline = [("HF_HUB_OFFLINE", "1")];
    let said = fails(&hub, home.path(), &["pull", REPOSITORY], &offline);
    assert!(said.contains("HF_HUB_OFFLINE forbids"), "{said}");
    let printed = done(&hub, home.path(), &["pull", REPOSITORY]);
    let asked = hub.state().requests.len();
    for variables in [&offline[..], &[("HF_ENDPOINT", "http://127.0.0.1:1")]] {
        let output = run_with(&hub, home.path(), &["pull", REPOSITORY], variables);
        assert_eq!(text(&output.stdout), printed, "{}", text(&output.stderr));
    }
    let other = format!("{REPOSITORY}:Q4_K_M");
    let said = fails(&hub, home.path(), &["pull", &other], &offline);
    assert!(said.contains("without asking the hub: "), "{said}");
    assert!(said.contains("has no `Q4_K_M`"), "{said}");
    let unreachable = [("HF_ENDPOINT", "http://127.0.0.1:1")];
    let said = fails(&hub, home.path(), &["pull", &other], &unreachable);
    for part in [
        "cannot reach http://127.0.0.1:1: ",
        "HF_ENDPOINT names another",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("client error"), "{said}");
    assert_eq!(hub.state().requests.len(), asked);
    // What an earlier commit had is here, too.
    let newer = folder(home.path()).join("snapshots/ffff");
    fs::create_dir(&newer).expect("writable");
    fs::write(folder(home.path()).join("refs/main"), "ffff").expect("writable");
    let output = run_with(&hub, home.path(), &["pull", REPOSITORY], &offline);
    assert_eq!(text(&output.stdout), printed, "{}", text(&output.stderr));
}

#[test]
fn two_processes_that_pull_the_same_download_it_once() {
    let file = bytes(8);
    let hub = Hub::start(&[("m.gguf", &file)]);
    hub.state().holds = true;
    let home = home();
    let start = || {
        let mut command = command(&["pull", REPOSITORY]);
        hub.serves(&mut command, home.path());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs")
    };
    let both = [start(), start()];
    // Both have the list, and one has begun with the file.
    while hub.state().requests.len() < 4 {
        std::thread::yield_now();
    }
    hub.release();
    for process in both {
        let output = process.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::read(text(&output.stdout).trim()).expect("there"), file);
    }
    assert_eq!(hub.fetches().len(), 1);
}

fn serve(hub: &Hub, home: &Path, arguments: &[&str]) -> Server {
    Server::start(arguments, |command| hub.serves(command, home))
}

#[test]
fn a_server_tells_how_far_its_model_is_and_serves_it_by_its_name() {
    let model = fs::read(MODEL).expect("there");
    let hub = Hub::start(&[("tiny-Q4_K_M.gguf", &model)]);
    hub.state().holds = true;
    let home = home();
    let mut server = serve(&hub, home.path(), &[&format!("{REPOSITORY}:Q4_K_M")]);
    let loading = loop {
        let status = server.get("/v3/status");
        let loading = status["graphs"][0]["loading"].clone();
        if loading["stage"] == "downloading" && loading["percent"].as_u64() > Some(0) {
            break loading;
        }
    };
    assert!(loading["percent"].as_u64() <= Some(50), "{loading}");
    hub.release();
    server.says("ready after");
    let body = json!({ "model": REPOSITORY, "prompt": "What", "max_tokens": 3 });
    let answer = server.post("/v3/completions", &body);
    assert_eq!(answer["usage"]["completion_tokens"], 3, "{answer}");
    assert_eq!(hub.fetches().len(), 1);
    drop(server);
    let said = fails(
        &hub,
        home.path(),
        &["serve", "--rest_port", "0", "org/other"],
        &[],
    );
    assert!(
        said.contains("`org/other`, which is not a local path"),
        "{said}"
    );
}

#[test]
fn the_flags_of_other_servers_name_models_too() {
    let model = fs::read(MODEL).expect("there");
    let hub = Hub::start(&[("a.gguf", &model), ("b.gguf", &model)]);
    let home = home();
    for flags in [
        &["--model-id", "org/model-GGUF:a.gguf"][..],
        &["-hf", REPOSITORY, "-hff", "a.gguf"],
        &[
            "--source_model",
            REPOSITORY,
            "--gguf_filename",
            "a.gguf",
            "--model_name",
            REPOSITORY,
        ],
    ] {
        let mut server = serve(&hub, home.path(), flags);
        server.says("ready after");
        assert_eq!(
            server.get("/v3/models")["data"][0]["id"],
            REPOSITORY,
            "{flags:?}"
        );
    }
    let named = "org/model-GGUF:a.gguf";
    let mut server = serve(&hub, home.path(), &[named, "--dtype", "float16"]);
    let said = server.says("ready after");
    let why = "`--dtype` has no effect: the name selects the weights of `a.gguf`";
    assert!(said.contains(why), "{said}");
    drop(server);
    let models = home.path().join("models");
    let models = path(&models);
    let pull = [
        "--pull",
        "--source_model",
        "org/model-GGUF:b.gguf",
        "--model_repository_path",
        models,
    ];
    let printed = done(&hub, home.path(), &pull);
    assert_eq!(printed, format!("{models}/org/model-GGUF/b.gguf\n"));
    let listed = done(
        &hub,
        home.path(),
        &["--list_models", "--model_repository_path", models],
    );
    assert_eq!(listed, "org/model-GGUF\n");
    let fetched = hub.fetches().len();
    done(&hub, home.path(), &pull);
    assert_eq!(hub.fetches().len(), fetched);
    done(
        &hub,
        home.path(),
        &[&pull[..], &["--overwrite_models"]].concat(),
    );
    assert_eq!(hub.fetches().len(), fetched + 1);
    let said = fails(&hub, home.path(), &["serve", MODEL, "--pull"], &[]);
    assert!(
        said.contains("`--pull` is for a model on Hugging Face"),
        "{said}"
    );
}

/// One projector is found beside the model, and the better one of two is named in its graph.
#[cfg(feature = "vision")]
#[test]
fn a_model_that_reads_images_gets_its_projector() {
    use graphmill_testkit::projector::{Kind, MODEL_WIDTH, make};

    let home = home();
    let model = fs::read(MODEL).expect("there");
    let projector = make(home.path(), Kind::Square, MODEL_WIDTH, 4.0);
    let projector = fs::read(projector).expect("made");
    for others in [&[][..], &["mmproj-F32.gguf"]] {
        let names = [&["m.gguf", "mmproj-F16.gguf"], others].concat();
        let file = |name: &&'static str| match *name {
            "m.gguf" => (*name, &model[..]),
            _ => (*name, &projector[..]),
        };
        let files: Vec<(&str, &[u8])> = names.iter().map(file).collect();
        let hub = Hub::start(&files);
        let mut server = serve(&hub, home.path(), &[REPOSITORY]);
        server.says("ready after");
        let models = server.get("/v3/models");
        assert_eq!(
            models["data"][0]["input_modalities"],
            json!(["text", "image"]),
            "{models}"
        );
        let mut server = serve(&hub, home.path(), &[REPOSITORY, "--mmproj", "none"]);
        server.says("ready after");
        let models = server.get("/v3/models");
        let model = &models["data"][0];
        assert_eq!(model["id"], REPOSITORY, "{models}");
        assert_eq!(model["input_modalities"], Value::Null, "{models}");
        assert_eq!(
            hub.state()
                .requests
                .iter()
                .filter(|it| it.path.contains("F32"))
                .count(),
            0
        );
    }
}
