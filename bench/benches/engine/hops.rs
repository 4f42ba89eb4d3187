//! What it costs to bring a packet from one node to the next, in one session on one thread.

use graphmill_bench::{
    drive::Driver,
    graphs::{chain, compile, fan},
    report::{Goal, Report},
    samples::Samples,
};
use graphmill_engine::Packet;

const SAMPLES: usize = 300;
/// Packets on their way at once: below the limit of a queue.
const BATCH: u64 = 64;
/// Of the fan: what is written by, and what is read by the eight.
const EDGES: usize = 16;
/// Of a timeline, as the server keeps them.
const EVENTS: usize = 4_096;

pub(crate) fn measure(report: &Report) {
    for length in [10, 100] {
        // One by one, each hop carries its share of a push and a poll as well.
        let ways = [
            (BATCH, "in batches", Goal::AtMost(120.0)),
            (1, "one by one", Goal::None),
        ];
        for (batch, how, goal) in ways {
            let driver = Driver::new(&compile(&chain("PassThroughCalculator", length, "")));
            let samples = pass(driver, batch, length);
            let what = format!("chain of {length}, packets {how}, a hop");
            report.samples(&what, &samples, ("ns", 1.0), goal);
        }
    }
    let chain = compile(&chain("PassThroughCalculator", 10, ""));
    let samples = pass(Driver::with_timeline(&chain, EVENTS), BATCH, 10);
    let what = "chain of 10, packets in batches, with a timeline, a hop";
    report.samples(what, &samples, ("ns", 1.0), Goal::AtMost(180.0));
    let fan = compile(&fan("PassThroughCalculator", 8, ""));
    let samples = pass(Driver::new(&fan), BATCH, EDGES);
    let what = "one to 8 nodes and to one that joins, an edge";
    report.samples(what, &samples, ("ns", 1.0), Goal::AtMost(150.0));
}

/// Sends packets through a session in batches; in nanoseconds for each of `parts` that a packet
/// passes.
fn pass(mut driver: Driver, batch: u64, parts: usize) -> Samples {
    let packet = Packet::new(0, 1_i64);
    let batches = BATCH / batch;
    let samples = Samples::time(SAMPLES, parts * BATCH as usize, || {
        (0..batches).for_each(|_| driver.pass(&packet, batch));
    });
    driver.finish();
    samples
}
