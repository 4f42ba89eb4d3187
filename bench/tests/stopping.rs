//! A contest that is stopped leaves no server behind.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::built;

#[test]
fn servers_end_with_the_bench() {
    let bench = built::bench();
    for (signal, name) in [("-TERM", "SIGTERM"), ("-INT", "SIGINT")] {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("started");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        // The peer says that it runs, and never gets ready. Ours is ready then.
        let peer = format!("sh -c 'echo >{}; exec sleep 600'", pipe.display());
        let bench = Command::new(bench)
            .args(["compare", "--peer-cmd", &peer, "--model"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bench starts");
        let (sender, started) = mpsc::channel();
        thread::spawn(move || sender.send(fs::read(pipe)));
        let started = started.recv_timeout(Duration::from_mins(5));
        started.expect("the peer starts").expect("a pipe");
        let id = bench.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))
            .expect("Linux lists children");
        let servers: Vec<&str> = children.split_whitespace().collect();
        assert_eq!(servers.len(), 2, "{children}");

        let sent = Command::new("kill")
            .args([signal, &id.to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
        let output = bench.wait_with_output().expect("the bench ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(&format!("stopped by {name}")),
            "{said}"
        );
        for server in servers {
            assert!(!Path::new("/proc").join(server).exists(), "{server} runs");
        }
    }
}
