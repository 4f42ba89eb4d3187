//! Counts what sessions allocate and prints a table: `cargo bench --workspace --bench memory`.

use graphmill_bench::{
    drive::Driver,
    graphs::{chain, compile},
    report::{Goal, Report},
};
use graphmill_engine::Packet;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Sessions of which the mean is taken.
const SESSIONS: usize = 100;
const PACKETS: u64 = 64;

fn main() {
    let report = Report::from_args();
    let _profiler = dhat::Profiler::builder().testing().build();
    for nodes in [6, 10, 100] {
        let plan = compile(&chain("PassThroughCalculator", nodes, ""));
        let packet = Packet::new(0, 1_i64);
        let mut sessions: Vec<Driver> = Vec::with_capacity(SESSIONS);
        let before = dhat::HeapStats::get();
        for _ in 0..SESSIONS {
            sessions.push(Driver::new(&plan));
        }
        let built = dhat::HeapStats::get();
        for session in &mut sessions {
            session.pass(&packet, 1);
        }
        let run = dhat::HeapStats::get();
        let each = |later: usize, sooner: usize| (later as f64 - sooner as f64) / SESSIONS as f64;
        let kib = |later: usize, sooner: usize| each(later, sooner) / 1024.0;
        let what = format!("session of {nodes} nodes");
        let goal = if nodes <= 10 {
            Goal::AtMost(8.0)
        } else {
            Goal::None
        };
        report.number(
            &format!("{what}, idle before its first packet"),
            kib(built.curr_bytes, before.curr_bytes),
            "KiB",
            goal,
        );
        report.number(
            &format!("{what}, idle after its first packet"),
            kib(run.curr_bytes, before.curr_bytes),
            "KiB",
            goal,
        );
        report.number(
            &format!("{what}, allocations until its first packet is through"),
            each(run.total_blocks as usize, before.total_blocks as usize),
            "",
            Goal::None,
        );
        let mut session = sessions.pop().expect("there are some");
        // Queues and both halves of the inbox grow in the first two rounds.
        session.pass(&packet, PACKETS);
        session.pass(&packet, PACKETS);
        let before = dhat::HeapStats::get();
        session.pass(&packet, PACKETS);
        let after = dhat::HeapStats::get();
        let blocks = (after.total_blocks - before.total_blocks) as f64;
        report.number(
            &format!("{what}, allocations a hop once it is warm"),
            blocks / (PACKETS as f64 * nodes as f64),
            "",
            Goal::AtMost(0.0),
        );
    }
}
