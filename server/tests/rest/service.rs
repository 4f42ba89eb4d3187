//! What a service manager is told, by a process that it has started.

use std::{collections::BTreeSet, os::unix::net::UnixDatagram, time::Duration};

use serde_json::json;

use crate::rest::support::{CHAT, Setup};
use crate::serving::Process;

/// A service manager's end of the protocol of systemd.
struct Manager {
    socket: UnixDatagram,
    /// All lines so far.
    told: BTreeSet<String>,
}

impl Manager {
    /// Waits for a line.
    fn is_told(&mut self, line: &str) {
        let mut message = [0; 4096];
        while !self.told.contains(line) {
            let read = self.socket.recv(&mut message);
            let read = read.unwrap_or_else(|error| panic!("{line}: {error}: {:?}", self.told));
            let message = std::str::from_utf8(&message[..read]).expect("text");
            self.told.extend(message.lines().map(str::to_owned));
        }
    }
}

#[test]
fn a_service_manager_is_told_of_the_start_progress_and_the_end() {
    let script = json!({ "name": "scripted", "replies": [{ "text": "hello" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let at = setup.path().join("notify");
    let socket = UnixDatagram::bind(&at).expect("a socket");
    let patience = Some(Duration::from_mins(1));
    socket.set_read_timeout(patience).expect("a timeout");
    let mut manager = Manager {
        socket,
        told: BTreeSet::new(),
    };
    let mut process = Process::start_as(&setup.config(), &[], |command| {
        command
            .env("NOTIFY_SOCKET", &at)
            .env("WATCHDOG_USEC", "20000")
    });
    manager.is_told("READY=1");
    manager.is_told("STATUS=serving");
    manager.told.clear();
    manager.is_told("WATCHDOG=1");
    process.signal("-TERM");
    manager.is_told("STOPPING=1");
    process.says("stopped");
}
