//! What a session costs: built from a compiled plan, run with one packet, dropped.

use graphmill_bench::{
    drive::Driver,
    graphs::{chain, compile},
    report::{Goal, Report},
    samples::Samples,
};
use graphmill_engine::Packet;

const SAMPLES: usize = 300;
const SESSIONS: usize = 100;

pub(crate) fn measure(report: &Report) {
    let plan = compile(&chain("PassThroughCalculator", 10, ""));
    let packet = Packet::new(0, 1_i64);
    let run = || {
        let mut driver = Driver::new(&plan);
        driver.pass(&packet, 1);
        driver.finish();
    };
    let samples = Samples::time(SAMPLES, SESSIONS, || (0..SESSIONS).for_each(|_| run()));
    let what = "session of 10 nodes, built, run with one packet, dropped";
    report.samples(what, &samples, ("us", 1e3), Goal::AtMost(5.0));
    let samples = Samples::time(SAMPLES, SESSIONS, || {
        (0..SESSIONS).for_each(|_| drop(Driver::new(&plan)));
    });
    let what = "session of 10 nodes, built and dropped";
    report.samples(what, &samples, ("us", 1e3), Goal::None);
}
