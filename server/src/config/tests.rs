use super::*;

fn parse_text(text: &str) -> LoadedConfig {
    parse(Path::new("conf/config.json"), text)
}

/// The one diagnostic of a configuration: `code place message | hint`.
fn complaint(text: &str) -> String {
    let loaded = parse_text(text);
    let [diagnostic] = loaded.diagnostics.as_slice() else {
        panic!("{:#?}", loaded.diagnostics)
    };
    let place = loaded
        .sources
        .locate(diagnostic.primary.span)
        .unwrap_or_default();
    let hint = diagnostic
        .hints
        .first()
        .map_or(String::new(), |hint| format!(" | {}", hint.text));
    assert_eq!(loaded.config.is_none(), diagnostic.is_error());
    format!(
        "{} {} {}{hint}",
        diagnostic.code,
        place.trim_start_matches("conf/"),
        diagnostic.message
    )
}

#[test]
fn paths_are_relative_to_the_file_and_default_to_the_name() {
    let config = parse_text(
        r#"{
            "model_config_list": [{"config": {"name": "c", "base_path": "/models/c", "graph_path": "other.pbtxt"}}],
            "mediapipe_config_list": [{"name": "org/model"}, {"name": "b", "base_path": "graphs/b/", "subconfig": "s.json"}]
        }"#,
    )
    .config
    .expect("no error");
    let files: Vec<_> = config
        .graphs
        .iter()
        .map(|graph| (graph.name.as_str(), graph.file.to_str().expect("UTF-8")))
        .collect();
    assert_eq!(
        files,
        [
            ("org/model", "conf/org/model/graph.pbtxt"),
            ("b", "conf/graphs/b/graph.pbtxt"),
            ("c", "/models/c/other.pbtxt"),
        ]
    );
    assert_eq!(
        config.graphs[1].subconfig,
        Path::new("conf/graphs/b/s.json")
    );
}

#[test]
fn a_numbered_version_folder_is_found_for_an_entry_of_the_model_list() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let versioned = folder.path().join("chat/1/graph.pbtxt");
    std::fs::create_dir_all(versioned.parent().expect("it has one")).expect("writable");
    std::fs::write(&versioned, "").expect("writable");
    let text = r#"{"model_config_list": [{"config": {"name": "chat"}}]}"#;
    let config = parse(&folder.path().join("config.json"), text)
        .config
        .expect("no error");
    assert_eq!(config.graphs[0].file, versioned);
    assert_eq!(config.graphs[0].base, folder.path().join("chat"));
}

#[test]
fn all_unknown_keys_are_named_at_once_with_what_is_wrong_besides() {
    let loaded = parse_text(
        r#"{
            "mediapipe_config_lst": [],
            "model_config_list": [
                {"config": {"name": "a", "base_pth": {"x": 1}, "loda": "on_demand"}},
                {"config": {"name": ""}}
            ],
            "monitoring": {"metrics": {"enable": false, "metric_list": []}}
        }"#,
    );
    let said: Vec<&str> = (loaded.diagnostics.iter())
        .map(|diagnostic| diagnostic.message.as_str())
        .collect();
    assert_eq!(
        said,
        [
            "unknown key `mediapipe_config_lst`",
            "unknown key `model_config_list[0].config.base_pth`",
            "unknown key `model_config_list[0].config.loda`",
            "unknown key `monitoring.metrics.metric_list`",
            "`model_config_list[1].config.name` is empty",
        ]
    );
    assert!(loaded.config.is_none());
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, expected) in [
        (
            "",
            "GM0902 config.json:1:1 the configuration is not JSON: EOF while parsing a value",
        ),
        (
            "{\n  \"model_config_list\": [],\n}",
            "GM0902 config.json:3:1 the configuration is not JSON: trailing comma",
        ),
        (
            "[",
            "GM0902 config.json:1:1 the configuration is not JSON: EOF while parsing a list",
        ),
        (
            "{\"monitoring\": [}",
            "GM0902 config.json:1:17 the configuration is not JSON: expected value",
        ),
        (
            "{} x",
            "GM0902 config.json:1:4 there is text after the configuration",
        ),
        (
            "[]",
            "GM0904 config.json:1:1 the configuration: invalid type: array, expected an object",
        ),
        (
            "{\n  \"model_config_list\": [],\n  \"mediapipe_config_lst\": []\n}",
            "GM0903 config.json:3:3 unknown key `mediapipe_config_lst` | did you mean `mediapipe_config_list`?",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": "a", "graph_queue_size": 4}]}"#,
            "GM0903 config.json:1:42 unknown key `mediapipe_config_list[0].graph_queue_size` | known here: name, aliases, base_path, graph_path, subconfig, optional, load, idle_unload_seconds, response_timeout_ms, model_version_policy, canary, generate_form, allow_cache, batch_size, custom_loader_options, layout, nireq, plugin_config, shape, target_device",
        ),
        (
            r#"{"model_config_list": [{"config": {"name": "a", "batch_size": 4}}]}"#,
            "GM0907 config.json:1:49 `batch_size` of `a` has no effect: it is an option of classic OpenVINO models, which are not served | a graph's options are in its nodes, in the graph file",
        ),
        (
            r#"{"pipeline_config_list": [{}]}"#,
            "GM0905 config.json:1:2 `pipeline_config_list` is for classic OpenVINO models, which are not served",
        ),
        (
            r#"{"mediapipe_config_list": [{"base_path": "a"}]}"#,
            "GM0904 config.json:1:45 `mediapipe_config_list[0]`: missing field `name`",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": ""}]}"#,
            "GM0904 config.json:1:37 `mediapipe_config_list[0].name` is empty | the `model` of a request selects the graph by this name",
        ),
        (
            r#"{"model_config_list": [{"config": {"name": "a/../b"}}]}"#,
            "GM0904 config.json:1:44 `model_config_list[0].config.name` has a segment `.` or `..` | the `model` of a request selects the graph by this name",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": "a"}, {"name": "//"}]}"#,
            "GM0904 config.json:1:52 `mediapipe_config_list[1].name` consists only of slashes | the `model` of a request selects the graph by this name",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": "a\nb"}]}"#,
            "GM0904 config.json:1:37 `mediapipe_config_list[0].name` has a control character | the `model` of a request selects the graph by this name",
        ),
        (
            "null",
            "GM0904 config.json:1:4 the configuration: invalid type: null, expected an object",
        ),
        (
            r#"{"mediapipe_config_list": [["chat", "/x", "graph.pbtxt", ""]]}"#,
            "GM0904 config.json:1:27 `mediapipe_config_list[0]`: invalid type: array, expected an object",
        ),
        (
            r#"{"model_config_list": [{"config": ["chat", "", "", ""]}]}"#,
            "GM0904 config.json:1:34 `model_config_list[0].config`: invalid type: array, expected an object",
        ),
        (
            r#"{"monitoring": {"metrics": [true, []]}}"#,
            "GM0904 config.json:1:27 `monitoring.metrics`: invalid type: array, expected an object",
        ),
        (
            r#"{"mediapipe_config_list": {"name": "a"}}"#,
            "GM0904 config.json:1:26 `mediapipe_config_list`: invalid type: object, expected an array",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": {}}]}"#,
            "GM0904 config.json:1:36 `mediapipe_config_list[0].name`: invalid type: object, expected a string",
        ),
        (
            r#"{"monitoring": {"metrics": {"enable": 1.5}}}"#,
            "GM0904 config.json:1:41 `monitoring.metrics.enable`: invalid type: number `1.5`, expected a boolean",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": 7}]}"#,
            "GM0904 config.json:1:37 `mediapipe_config_list[0].name`: invalid type: integer `7`, expected a string",
        ),
        (
            r#"{"model_config_list": [{"config": {"name": "a", "aliases": "bc"}}]}"#,
            "GM0904 config.json:1:60 `model_config_list[0].config.aliases`: invalid type: string \"bc\", expected an array",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": "a"}, {"name": "a", "base_path": "a"}]}"#,
            "GM0906 config.json:1:52 `a` names more than one graph; `conf/a/graph.pbtxt` is served",
        ),
        (
            r#"{"monitoring": {"metrics": {"enable": true, "metrics_list": ["x"]}}}"#,
            "GM0907 config.json:1:2 `/metrics` has all of its metrics, and `--enable_metrics_api false` leaves it out: `monitoring` has no effect",
        ),
    ] {
        assert_eq!(complaint(text), expected, "{text}");
    }
}

#[test]
fn wrong_words_about_residence_and_versions_are_told_with_their_line() {
    for (said, expected) in [
        (
            r#""optional": "yes""#,
            "optional`: invalid type: string \"yes\", expected a boolean",
        ),
        (
            r#""load": "later""#,
            "load`: expected `at_start` or `on_demand`",
        ),
        (
            r#""idle_unload_seconds": -1"#,
            "idle_unload_seconds`: invalid value: integer `-1`, expected a whole number from 0",
        ),
        (
            r#""idle_unload_seconds": null"#,
            "idle_unload_seconds`: invalid type: null",
        ),
        (
            r#""model_version_policy": "all""#,
            "model_version_policy`: invalid type: string \"all\", expected an object",
        ),
        (
            r#""model_version_policy": {}"#,
            "expected one of `all`, `latest` and `specific`",
        ),
        (
            r#""model_version_policy": {"all": {}, "latest": {}}"#,
            "expected one of `all`",
        ),
        (
            r#""model_version_policy": {"latest": {"num_versions": 0}}"#,
            "num_versions`: invalid value: integer `0`, expected a whole number above 0",
        ),
        (
            r#""model_version_policy": {"specific": {"versions": []}}"#,
            "`specific.versions` lists no version",
        ),
        (
            r#""model_version_policy": {"newest": {}}"#,
            "unknown key `mediapipe_config_list[0].model_version_policy.newest`",
        ),
        (
            r#""canary": [2]"#,
            "canary`: invalid type: array, expected an object",
        ),
        (
            r#""canary": {"two": 10}"#,
            "`two` is not a version: expected a number above 0",
        ),
        (
            r#""canary": {"2": "10"}"#,
            "canary.2`: invalid type: string \"10\", expected a whole number from 0",
        ),
        (
            r#""canary": {"2": 60, "3": 50}"#,
            "the percentages add up to 110",
        ),
        (
            r#""canary": {"2": 10}"#,
            "there is no version of `a` to serve",
        ),
    ] {
        let text = format!("{{\"mediapipe_config_list\": [\n{{\"name\": \"a\",\n{said}\n}}]}}");
        let loaded = parse_text(&text);
        let found = loaded.diagnostics.first().expect(said);
        assert!(found.is_error() && loaded.config.is_none(), "{said}");
        assert!(
            found.message.contains(expected),
            "{said}: {}",
            found.message
        );
        let place = loaded.sources.locate(found.primary.span).expect(said);
        let line = if found.code == &codes::VERSIONS { 2 } else { 3 };
        assert!(
            place.starts_with(&format!("conf/config.json:{line}:")),
            "{said}: {place}"
        );
    }
}

#[test]
fn the_folder_1_alone_is_a_graph_without_versions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |version: &str| {
        let folder = folder.path().join("chat").join(version);
        std::fs::create_dir_all(&folder).expect("writable");
        std::fs::write(folder.join("graph.pbtxt"), "").expect("writable");
    };
    let read = |said: &str| {
        let text = format!(r#"{{"model_config_list": [{{"config": {{"name": "chat"{said}}}}}]}}"#);
        let config = parse(&folder.path().join("config.json"), &text).config;
        let graphs = config.expect("no error").graphs.into_iter();
        graphs
            .map(|graph| {
                (
                    graph.id(),
                    graph
                        .base
                        .strip_prefix(folder.path())
                        .expect("in it")
                        .to_owned(),
                )
            })
            .collect::<Vec<_>>()
    };
    let at = |id: &str, base: &str| (id.to_owned(), base.into());
    write("1");
    assert_eq!(read(""), [at("chat", "chat")]);
    let all = r#", "model_version_policy": {"all": {}}"#;
    assert_eq!(read(all), [at("chat@1", "chat/1")]);
    write("2");
    assert_eq!(read(""), [at("chat@2", "chat/2")]);
    assert_eq!(read(all), [at("chat@1", "chat/1"), at("chat@2", "chat/2")]);
}

#[test]
fn a_graph_and_a_version_of_another_have_different_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for base in ["other", "chat/1", "chat/2"] {
        let base = folder.path().join(base);
        std::fs::create_dir_all(&base).expect("writable");
        std::fs::write(base.join("graph.pbtxt"), "").expect("writable");
    }
    let text = r#"{"mediapipe_config_list": [
        {"name": "chat@2", "base_path": "other"},
        {"name": "chat", "model_version_policy": {"all": {}}}
    ]}"#;
    let loaded = parse(&folder.path().join("config.json"), text);
    let graphs = loaded.config.expect("no error").graphs;
    let names: Vec<_> = graphs.iter().map(GraphEntry::id).collect();
    assert_eq!(names, ["chat@2", "chat@1"]);
    assert_eq!(graphs[0].base, folder.path().join("other"));
    let told: Vec<_> = loaded.diagnostics.iter().collect();
    assert!(
        matches!(told.as_slice(), [told] if told.code == &codes::DUPLICATE_NAME),
        "{told:?}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let loaded = load(Path::new("/nowhere/config.json"));
    assert!(loaded.config.is_none());
    assert!(
        loaded.diagnostics[0]
            .message
            .contains("`/nowhere/config.json`"),
        "{:?}",
        loaded.diagnostics
    );
}

#[test]
fn every_code_has_an_example_that_is_wrong_and_one_that_is_right() {
    // They are about no text of a `config.json`.
    let others = [&codes::UNREADABLE, &codes::TRITON];
    let all = codes::ALL.iter().filter(|code| !code.wrong.is_empty());
    for code in all.filter(|code| !others.contains(code)) {
        assert!(
            complaint(code.wrong).starts_with(&code.to_string()),
            "{code}: {}",
            code.wrong
        );
        assert_eq!(
            parse_text(code.right).diagnostics,
            [],
            "{code}: {}",
            code.right
        );
    }
}

#[test]
fn a_subconfig_with_classic_models_keeps_a_graph_from_being_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("subconfig.json");
    assert_eq!(resolve::refused_subconfig(&path), None, "it may be absent");
    std::fs::write(&path, r#"{"model_config_list": []}"#).expect("writable");
    assert_eq!(resolve::refused_subconfig(&path), None, "it may be empty");
    std::fs::write(
        &path,
        r#"{"model_config_list": [{"config": {"name": "resnet"}}]}"#,
    )
    .expect("writable");
    assert!(resolve::refused_subconfig(&path).is_some_and(|why| why.contains("classic")));
    let unreadable = resolve::refused_subconfig(folder.path());
    assert!(unreadable.is_some_and(|why| why.contains("cannot read")));
}

#[test]
fn subgraphs_are_registered_by_file_and_by_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("writable");
        std::fs::write(file, text).expect("writable");
    };
    write("one.pbtxt", "type: \"One\"");
    write("more/two.pbtxt", "type: \"Two\"");
    write("more/three.pbtxt", "type: \"Three\"");
    write("again.pbtxt", "type: \"Two\"");
    let at = folder.path().join("config.json");
    let read = |list: &str| {
        parse(
            &at,
            &format!(r#"{{"model_config_list": [], "subgraph_list": {list}}}"#),
        )
    };
    let config = read(r#"["one.pbtxt", "more"]"#).config.expect("no error");
    let registry = config.register(Registry::new());
    let names: Vec<&str> = registry.subgraphs().map(|found| &*found.name).collect();
    assert_eq!(names, ["One", "Three", "Two"]);
    let twice = read(r#"["more", "again.pbtxt"]"#).diagnostics;
    assert!(
        twice[0].message.contains("both have the type `Two`"),
        "{twice:?}"
    );
}
