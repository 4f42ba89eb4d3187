//! Ten thousand sessions at once, each of which exchanges packets with a thread outside the
//! runtime.

use std::{sync::Arc, time::Instant};

use graphmill_bench::{
    graphs::{chain, compile},
    nodes::{Hops, Stamp},
    report::{Goal, Report},
    samples::{Samples, nanoseconds},
};
use graphmill_engine::{Handle, OutputStream, Packet, Plan, RunCx, Session, SidePackets};
use tokio::runtime::{Builder, Runtime};

const SESSIONS: usize = 10_000;
const ROUNDS: i64 = 100;
/// After these, every session has what it needs.
const WARM_UP: i64 = 10;
const NODES: usize = 6;

pub(crate) fn measure(report: &Report) {
    let graph = chain("StampCalculator", NODES, "input_side_packet: \"HOPS:hops\"")
        + "input_side_packet: \"hops\"";
    let plan = compile(&graph);
    let hops = Hops::default();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    let mut burst = start(&runtime, &plan, &hops);
    let mut exchanges = Vec::new();
    let mut warm = 0.0;
    for time in 0..ROUNDS {
        if time == WARM_UP {
            warm = resident_mib();
        }
        let begun = Instant::now();
        exchange(&runtime, &mut burst, time);
        exchanges.push(nanoseconds(begun.elapsed()) / SESSIONS as f64);
    }
    let grown = resident_mib() - warm;
    runtime.block_on(async {
        for (handle, _) in &burst {
            handle.close_all();
            handle.outcome().await.expect("nothing fails");
        }
    });
    let hops = Samples::new(hops.take());
    let (middle, high) = (hops.median(), hops.quantile(0.99));
    let what = "10,000 sessions of 6 nodes";
    let exchanges = Samples::new(exchanges);
    report.samples(
        &format!("{what}, one packet there and back"),
        &exchanges,
        ("us", 1e3),
        Goal::None,
    );
    report.number(
        &format!("{what}, growth after warm-up"),
        grown,
        "MiB",
        Goal::AtMost(1.0),
    );
    report.number(&format!("{what}, p50 of a hop"), middle, "ns", Goal::None);
    report.number(&format!("{what}, p99 of a hop"), high, "ns", Goal::None);
    report.number(
        &format!("{what}, p99 to p50"),
        high / middle,
        "x",
        Goal::AtMost(5.0),
    );
}

fn start(runtime: &Runtime, plan: &Arc<Plan>, hops: &Hops) -> Vec<(Handle, OutputStream)> {
    let start = |_| {
        let sides = SidePackets::new().with("hops", hops.clone());
        let (session, handle) = Session::new(plan, RunCx::new("bench"), sides).expect("starts");
        let out = handle.output("out").expect("the graph has `out`");
        runtime.spawn(session);
        (handle, out)
    };
    (0..SESSIONS).map(start).collect()
}

/// Sends one packet to every session and takes one from each.
fn exchange(runtime: &Runtime, burst: &mut [(Handle, OutputStream)], time: i64) {
    for (handle, _) in &*burst {
        handle
            .try_push("in", Packet::new(time, Stamp(None)))
            .expect("there is room");
    }
    runtime.block_on(async {
        for (_, out) in burst {
            out.next().await.expect("every packet comes out");
        }
    });
}

/// The memory of this process that is in use, as the system sees it.
fn resident_mib() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<f64>().ok());
    resident.unwrap_or(0.0) * 4096.0 / (1024.0 * 1024.0)
}
