//! Things from outside the graph.

use std::{
    sync::{Arc, Mutex},
    thread,
};

use graphmill_engine::{
    Calculator, Contract, Cx, Environment, EventSender, Events, Flow, Hold, In, NoOptions, Offset,
    OpenCx, Out, Packet, Registry, Result, SessionEnded, testing::Harness,
};

type Ends = Arc<Mutex<Option<(EventSender<i64>, Hold)>>>;

/// Emits what is sent to it from outside.
struct Receive;

impl Calculator for Receive {
    const NAME: &'static str = "ReceiveCalculator";
    type Options = NoOptions;
    type Ports = (In<Ends>, Out<i64>, Events<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        (c.input(""), c.output(""), c.events())
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (ends, output, events): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(ends) = cx.take(ends) {
            let end = (cx.sender(events), cx.hold());
            *ends.lock().expect("free") = Some(end);
        }
        if let Some(value) = cx.event(events) {
            cx.emit(output, value);
        }
        Ok(Flow::Continue)
    }
}

fn start() -> (Harness, EventSender<i64>, Hold) {
    let text =
        r#"node { calculator: "ReceiveCalculator" input_stream: "in" output_stream: "out" }"#;
    let mut h = Harness::new(text, Environment::new(Registry::new().with::<Receive>()));
    let ends = Ends::default();
    h.push("in", 0, ends.clone()).close("in");
    let (sender, hold) = ends
        .lock()
        .expect("free")
        .take()
        .expect("the node made a sender");
    (h, sender, hold)
}

#[test]
fn events_get_ascending_timestamps() {
    let (mut h, sender, hold) = start();
    for value in [7, 8, 9] {
        sender.send(value).expect("the session lives");
    }
    h.settle();
    h.expect("out", [(0, 7_i64), (1, 8), (2, 9)]);
    drop((sender, hold));
    h.settle();
    h.finish();
}

#[test]
fn a_node_stays_open_while_it_is_held() {
    let (mut h, sender, hold) = start();
    drop(sender);
    h.settle();
    assert!(!h.ended(), "the hold is left");
    assert!(
        h.why()
            .to_string()
            .contains("an event, or the release of its holds"),
        "{}",
        h.why()
    );
    drop(hold.clone());
    h.settle();
    assert!(!h.ended(), "one clone of the hold is left");
    drop(hold);
    h.settle();
    h.finish();
}

#[test]
fn a_sent_event_is_handled_before_the_node_closes() {
    let (mut h, sender, hold) = start();
    sender.send(1).expect("the session lives");
    drop((sender, hold));
    h.settle();
    h.expect("out", [(0, 1_i64)]);
    h.finish();
}

#[test]
fn events_come_from_other_threads() {
    let (mut h, sender, hold) = start();
    let threads: Vec<_> = (0..4_i64)
        .map(|number| {
            let sender = sender.clone();
            thread::spawn(move || {
                for value in 0..250 {
                    sender
                        .send(number * 1_000 + value)
                        .expect("the session lives");
                }
            })
        })
        .collect();
    drop((sender, hold));
    h.block_until(Harness::ended);
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    let values: Vec<i64> = h
        .packets("out")
        .into_iter()
        .filter_map(Packet::into_value)
        .collect();
    assert_eq!(values.len(), 1_000);
    for number in 0..4 {
        let of_one: Vec<i64> = values
            .iter()
            .copied()
            .filter(|value| value / 1_000 == number)
            .collect();
        assert!(of_one.is_sorted(), "one sender's events stay in order");
    }
    h.finish();
}

#[test]
fn a_batch_wakes_when_its_answers_are_dropped() {
    let (mut h, sender, hold) = start();
    let wakes: Vec<_> = (0..3)
        .map(|value| sender.post(value).expect("the session lives"))
        .collect();
    h.settle();
    h.expect_nothing("out");
    drop(wakes);
    h.settle();
    h.expect("out", [(0, 0_i64), (1, 1), (2, 2)]);
    drop((sender, hold));
    h.settle();
    h.finish();
}

#[test]
fn an_ended_session_takes_nothing() {
    let (mut h, sender, _hold) = start();
    h.drop_session();
    assert_eq!(sender.send(1), Err(SessionEnded));
}
