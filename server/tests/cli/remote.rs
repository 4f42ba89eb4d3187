//! Verbs that ask a running server.

use crate::cli::support::{MODEL, Server, graphmill, text};

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
    }
}
