//! Sessions on a multi-threaded runtime: readers, writers and sessions in tasks of their own.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use graphmill_engine::{Packet, RunCx, Session, SidePackets};

use crate::engine::nodes::run;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime starts")
}

#[test]
fn many_sessions_exchange_packets_with_many_tasks() {
    const SESSIONS: i64 = 64;
    const PACKETS: i64 = 300;
    let text = r#"
        input_stream: "in" output_stream: "out" max_queue_size: 4
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "a" }
        node { calculator: "AddCalculator" input_stream: "a" input_stream: "in" output_stream: "b" }
        node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "out" }"#;
    let plan = run(text).plan().clone();
    runtime().block_on(async {
        let mut readers = Vec::new();
        for number in 0..SESSIONS {
            let (session, handle) =
                Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
            let handle = Arc::new(handle);
            let out = handle.output("out").expect("before the start");
            let running = tokio::spawn(session);
            let writer = Arc::clone(&handle);
            tokio::spawn(async move {
                for time in 0..PACKETS {
                    writer
                        .push("in", Packet::new(time, number + time))
                        .await
                        .expect("the session lives");
                }
                writer.close("in").expect("the session lives");
            });
            readers.push(tokio::spawn(async move {
                let sums: Vec<i64> = out
                    .filter_map(async |packet| packet.into_value::<i64>())
                    .collect()
                    .await;
                let outcome = running.await.expect("no panic").expect("no error");
                assert!(handle.outcome().await.is_ok());
                (number, sums, outcome)
            }));
        }
        for reader in readers {
            let finished = tokio::time::timeout(Duration::from_mins(1), reader).await;
            let (number, sums, summary) = finished.expect("no session hangs").expect("no panic");
            assert_eq!(
                sums,
                (0..PACKETS)
                    .map(|time| 2 * (number + time))
                    .collect::<Vec<_>>()
            );
            assert_eq!(
                summary.nodes().map(|node| node.runs).sum::<u64>() as i64,
                3 * (PACKETS + 1)
            );
        }
        assert_eq!(plan.open_sessions(), 0);
    });
}

#[test]
fn a_session_answers_why_while_it_sleeps() {
    let plan = run(r#"node { calculator: "AddCalculator" input_stream: "a" input_stream: "b" output_stream: "sum" }"#).plan().clone();
    runtime().block_on(async {
        let (session, handle) = Session::new(&plan, RunCx::new("x"), SidePackets::new()).expect("starts");
        let running = tokio::spawn(session);
        handle.push("a", Packet::new(1, 1_i64)).await.expect("the session lives");
        let why = handle.why().await;
        assert_eq!(
            why.chains[0][0].to_string(),
            "`AddCalculator` waits for graph input `b`, on which nothing came yet; it is not closed; 1 packet waits with it, at 1"
        );
        drop(handle);
        let error = running.await.expect("no panic").expect_err("cancelled");
        assert_eq!(error.kind, graphmill_engine::Kind::Cancelled);
    });
}
