//! Verbs that ask a running server.

use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::cli::support::{MODEL, Server, command, graphmill, path, text};

#[test]
fn the_server_on_this_machine_needs_no_address() {
    // What is missing is all but the address.
    for (arguments, missing, given) in [
        (&["tap"][..], "<GRAPH>", "<URL>"),
        (&["tap", "chat"], "<STREAM>", "<GRAPH>"),
        (&["record"], "<GRAPH>", "<URL>"),
    ] {
        let output = graphmill(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let required = said.split("Usage:").next().unwrap_or_default();
        assert!(
            required.contains(missing) && !required.contains(given),
            "{said}"
        );
    }
    let mut server = Server::start(&[MODEL], |_| ());
    server.says("ready after");
    let address = server.url.trim_start_matches("http://");
    for address in [address, server.url.as_str()] {
        let output = graphmill(&["why", address]);
        assert_eq!(
            text(&output.stdout),
            "no session is open\n",
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_server_that_is_not_there_can_be_started() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", taken.local_addr().expect("an address"));
    drop(taken);
    for arguments in [
        &["why", &url][..],
        &["top", &url],
        &["chat", &url],
        &["tap", &url, "chat", "output"],
    ] {
        let output = graphmill(arguments);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        for part in ["cannot reach", "`graphmill serve MODEL` starts a server"] {
            assert!(said.contains(part), "{part} in {said}");
        }
        // It answers the same, but not the other questions.
        let needs_none = said.contains("`graphmill chat MODEL` needs none");
        assert_eq!(needs_none, arguments[0] == "chat", "{said}");
    }
}

#[test]
fn a_recording_that_cannot_be_written_is_not_begun() {
    let server = Server::start(&[MODEL], |_| ());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("writable");
    let output = file.to_str().expect("UTF-8");
    let refused = graphmill(&["record", &server.url, "model", "--output", output]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("cannot write to"), "{said}");
}

#[test]
fn a_key_has_a_name_that_the_key_file_takes() {
    for name in ["a b", ""] {
        let refused = graphmill(&["key", name]);
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stderr);
        assert!(said.contains("1 to 64 letters, digits"), "{said}");
    }
}

#[test]
fn a_graph_that_no_tensor_can_enter_says_which_stream_takes_what() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("graph.pbtxt");
    let nodes = r#"
        input_stream: "texts"
        output_stream: "out"
        node { calculator: "BeginLoopStringCalculator" input_stream: "ITERABLE:texts"
          output_stream: "ITEM:item" output_stream: "BATCH_END:end" }
        node { calculator: "EndLoopStringCalculator" input_stream: "ITEM:item"
          input_stream: "BATCH_END:end" output_stream: "ITERABLE:out" }
    "#;
    fs::write(&graph, nodes).expect("writable");
    let refused = graphmill(&["serve", graph.to_str().expect("UTF-8"), "--rest_port", "0"]);
    let said = text(&refused.stderr);
    assert!(
        said.contains("`texts` takes `string_vector`, which cannot be a tensor"),
        "{said}"
    );
}

#[test]
fn a_server_with_tls_is_reached() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).expect("a certificate");
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    fs::write(&certificate, cert.pem()).expect("writable");
    fs::write(&key, signing_key.serialize_pem()).expect("writable");
    let files = [
        "--tls_cert_file",
        path(&certificate),
        "--tls_key_file",
        path(&key),
    ];
    let arguments: Vec<&str> = [MODEL].into_iter().chain(files).collect();
    let server = Server::start(&arguments, |_| ());
    let url = server.url.replace("http://", "https://");

    let asked = |trusted: &str| {
        let mut why = command(&["why", &url]);
        why.env("SSL_CERT_FILE", trusted).output().expect("it runs")
    };
    let trusting = asked(path(&certificate));
    assert_eq!(
        text(&trusting.stdout),
        "no session is open\n",
        "{}",
        text(&trusting.stderr)
    );
    let other = generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let wrong = folder.path().join("other.pem");
    fs::write(&wrong, other.cert.pem()).expect("writable");
    let refusing = asked(path(&wrong));
    let said = text(&refusing.stderr);
    assert!(said.contains("invalid peer certificate"), "{said}");
    let way = "`SSL_CERT_FILE` names";
    assert!(
        said.contains(way) && !said.contains("serve MODEL"),
        "{said}"
    );
}
