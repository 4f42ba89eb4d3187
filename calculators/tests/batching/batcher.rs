//! The resource by itself.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use graphmill_calculators::tensor::batch::{
    Batcher, Batching, BatchingLevel, PadValue, Pending, RaggedPolicy, RequestScheduling,
    TimeoutAction,
};
use graphmill_calculators::tensor::{Tensor, TensorModel};
use graphmill_engine::{Error, Kind, Result, block_on, block_on_for};

use crate::batching::models::{Anything, Gate, Matmul, PATIENCE, floats, numbers, other_numbers};

const WIDTH: usize = 3;

fn batching(rows: u32) -> Batching {
    Batching::with_max_batch_size(rows)
}

/// Batches that wait for a size and for nothing else.
fn of_size(rows: u32) -> Batching {
    Batching {
        preferred_batch_size: vec![rows],
        max_queue_delay_microseconds: 3_600_000_000,
        ..batching(64)
    }
}

fn batcher(batching: Batching, gate: Gate) -> (Arc<Matmul>, Batcher) {
    let model = Arc::new(Matmul::new(WIDTH, 2, gate));
    let batcher = Batcher::new("matmul", model.clone(), batching).expect("valid");
    (model, batcher)
}

fn row() -> Vec<Tensor> {
    rows(1)
}

fn rows(count: usize) -> Vec<Tensor> {
    vec![floats(&[count, WIDTH], &other_numbers(count * WIDTH))]
}

fn row_of(first: f32) -> Vec<Tensor> {
    vec![floats(&[1, WIDTH], &[first, 0.0, 0.0])]
}

fn submit(batcher: &Batcher, inputs: Vec<Tensor>) -> Pending {
    batcher
        .submit(inputs, RequestScheduling::default())
        .expect("taken")
}

fn result(pending: Pending) -> Result<Vec<Tensor>> {
    let answer = block_on_for(pending, PATIENCE).expect("an answer");
    answer.map(|answer| answer.outputs)
}

fn is_right(model: &Matmul, inputs: &[Tensor], pending: Pending) {
    let outputs = result(pending).expect("computed");
    assert_eq!(outputs[0].shape(), [inputs[0].shape()[0], 2]);
    let expected = model.product(&numbers(&inputs[0]));
    assert_eq!(numbers(&outputs[0]), expected);
}

/// Submits a request and waits until the model computes it.
fn occupy(batcher: &Batcher, model: &Matmul) -> Pending {
    let pending = submit(batcher, row());
    model.gate.wait_for(1);
    pending
}

#[test]
fn requests_are_computed_together_and_each_gets_its_rows() {
    let (model, batcher) = batcher(of_size(8), Gate::open());
    let asked: Vec<(Vec<Tensor>, Pending)> = [1, 3, 2, 2]
        .map(rows)
        .into_iter()
        .map(|inputs| (inputs.clone(), submit(&batcher, inputs)))
        .collect();
    for (inputs, pending) in asked {
        is_right(&model, &inputs, pending);
    }
    assert_eq!(model.calls(), [8]);
    let measured = batcher.measurements();
    assert_eq!(
        (measured.batch_rows.count, measured.batch_rows.sum),
        (1, 8.0)
    );
    assert_eq!(
        (measured.batch_requests.count, measured.batch_requests.sum),
        (1, 4.0)
    );
    assert_eq!(measured.queue_seconds.count, 4);
    assert_eq!(measured.finished[0], ("done", 4));
}

#[test]
fn a_request_tells_what_its_batch_collects() {
    let (model, batcher) = batcher(batching(4), Gate::default());
    let first = occupy(&batcher, &model);
    let [second, third] = [2, 3].map(|count| submit(&batcher, rows(count)));
    let said = [&first, &second, &third].map(|pending| pending.watch()());
    assert_eq!(
        said,
        [
            "a batch of `matmul`, which is computed now",
            "a batch of `matmul`, which collects: 2 of 4 rows; requests computed meanwhile: 1",
            "a later batch of `matmul`, requests before it: 1",
        ]
    );
    model.gate.let_pass(usize::MAX);
}

#[test]
fn many_threads_get_what_is_theirs() {
    let (model, batcher) = batcher(
        Batching {
            instances: 3,
            max_queue_delay_microseconds: 200,
            ..batching(16)
        },
        Gate::open(),
    );
    thread::scope(|scope| {
        for thread in 0..8 {
            let (model, batcher) = (&model, &batcher);
            scope.spawn(move || {
                for round in 0..100 {
                    let inputs = rows(1 + (thread + round) % 5);
                    is_right(model, &inputs, submit(batcher, inputs.clone()));
                }
            });
        }
    });
    let measured = batcher.measurements();
    assert_eq!(measured.finished[0], ("done", 800));
    assert!(model.calls().iter().all(|rows| *rows <= 16));
    assert_eq!(batcher.waiting(), 0);
}

#[test]
fn what_is_wrong_is_refused_before_it_is_in_a_batch() {
    let (model, batcher) = batcher(of_size(2), Gate::open());
    let good = row();
    let first = submit(&batcher, good.clone());
    let refused = |inputs: Vec<Tensor>| {
        let error = batcher.submit(inputs, RequestScheduling::default());
        let error = error.expect_err("refused");
        assert_eq!(error.kind, Kind::InvalidArgument);
        error.message
    };
    assert_eq!(
        refused(vec![floats(&[1, 4], &[0.0; 4])]),
        "input `pixels`: the shape is [1, 4], but the model takes [-1, 3]"
    );
    assert_eq!(
        refused(vec![Tensor::from_strings(["a"])]),
        "input `pixels`: the tensor is BYTES, but the model takes FP32"
    );
    assert_eq!(
        refused(rows(65)),
        "input `pixels`: the request has 65 rows, and a batch at most 64 (max_batch_size)"
    );
    assert_eq!(
        refused([row(), row()].concat()),
        "the model takes 1 tensors, but there are 2"
    );
    is_right(&model, &good.clone(), submit(&batcher, good.clone()));
    is_right(&model, &good, first);
    assert_eq!(model.calls(), [2]);
}

#[test]
fn what_one_request_does_to_the_model_ends_no_other() {
    let (model, batcher) = batcher(of_size(3), Gate::open());
    let (a, b) = (row(), row());
    let first = submit(&batcher, a.clone());
    let bad = submit(&batcher, row_of(f32::NAN));
    is_right(&model, &b.clone(), submit(&batcher, b));
    is_right(&model, &a, first);
    let error = result(bad).expect_err("not a number");
    assert_eq!(error.message, "a row is not a number");
    assert_eq!(model.calls(), [3, 1, 1, 1]);
    assert_eq!(batcher.measurements().failed_batches, 1);
}

#[test]
fn a_panic_ends_its_batch_and_nothing_else() {
    let (model, batcher) = batcher(of_size(2), Gate::open());
    let first = submit(&batcher, row());
    let second = submit(&batcher, row_of(f32::INFINITY));
    for pending in [first, second] {
        let error = result(pending).expect_err("a panic");
        assert_eq!(error.kind, Kind::Internal);
        assert!(error.message.contains("the model panicked: too much"));
    }
    let good = rows(2);
    is_right(&model, &good, submit(&batcher, good.clone()));
    assert_eq!(model.calls(), [2, 2]);
}

#[test]
fn outputs_have_the_rows_of_the_batch_or_the_requests_fail() {
    let of_one_row = |_| Ok(vec![floats(&[1, 1], &[0.0])]);
    let batcher = Batcher::new("one", Arc::new(Anything(of_one_row)), of_size(2));
    let batcher = batcher.expect("valid");
    let (first, second) = (submit(&batcher, row()), submit(&batcher, row()));
    // Alone, each has the one row.
    assert!(result(first).is_ok() && result(second).is_ok());
    let error = result(submit(&batcher, rows(2))).expect_err("a row is missing");
    assert_eq!(error.kind, Kind::Internal);
    assert!(error.message.contains("has the shape [1, 1]"), "{error}");
}

#[test]
fn a_model_without_a_free_dimension_is_refused() {
    struct Fixed(Vec<graphmill_calculators::tensor::TensorInfo>);
    impl TensorModel for Fixed {
        fn inputs(&self) -> &[graphmill_calculators::tensor::TensorInfo] {
            &self.0
        }
        fn outputs(&self) -> &[graphmill_calculators::tensor::TensorInfo] {
            &[]
        }
        fn run(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
            Ok(inputs)
        }
    }
    let mut info = Matmul::new(WIDTH, 2, Gate::open()).inputs().to_vec();
    info[0].shape = vec![1, 3];
    let error = Batcher::new("fixed", Arc::new(Fixed(info)), batching(8)).expect_err("refused");
    assert_eq!(
        error.message,
        "the model's input `pixels` has the shape [1, 3]: to be batched, dimension 0 has to be -1"
    );
    let model = Arc::new(Matmul::new(WIDTH, 2, Gate::open()));
    let error = Batcher::new("none", model, batching(0)).expect_err("refused");
    assert_eq!(
        error.message,
        "`max_batch_size` must be from 1 to 65536, not 0"
    );
}

#[test]
fn instances_compute_at_the_same_time() {
    let (model, batcher) = batcher(
        Batching {
            instances: 2,
            ..batching(1)
        },
        Gate::default(),
    );
    let (a, b) = (row(), row());
    let (first, second) = (submit(&batcher, a.clone()), submit(&batcher, b.clone()));
    model.gate.wait_for(2);
    model.gate.let_pass(2);
    is_right(&model, &a, first);
    is_right(&model, &b, second);
}

#[test]
fn threads_come_and_go_while_requests_are_computed() {
    let (model, batcher) = batcher(batching(1), Gate::default());
    assert_eq!(batcher.instances(), 1);
    let rows: Vec<Vec<Tensor>> = (0..3).map(|_| row()).collect();
    let asked: Vec<_> = rows
        .iter()
        .map(|row| submit(&batcher, row.clone()))
        .collect();
    model.gate.wait_for(1);
    // The others are computed beside the first.
    batcher.scale(3).expect("threads");
    model.gate.wait_for(3);
    batcher.scale(1).expect("threads");
    assert_eq!(batcher.instances(), 1);
    model.gate.let_pass(3);
    for (row, pending) in rows.iter().zip(asked) {
        is_right(&model, row, pending);
    }
    // One is left, which computes one after the other.
    let (a, b) = (row(), row());
    let (first, second) = (submit(&batcher, a.clone()), submit(&batcher, b.clone()));
    model.gate.let_pass(5);
    is_right(&model, &a, first);
    is_right(&model, &b, second);
    for wrong in [0, 257] {
        let error = batcher.scale(wrong).expect_err("refused");
        assert_eq!(error.field.as_deref(), Some("instances"), "{error}");
    }
    assert_eq!(batcher.instances(), 1);
}

#[test]
fn the_first_level_goes_first_and_a_level_that_is_none_is_refused() {
    let (model, batcher) = batcher(
        Batching {
            levels: vec![BatchingLevel::default(); 3],
            default_priority_level: 2,
            ..batching(1)
        },
        Gate::default(),
    );
    let busy = occupy(&batcher, &model);
    let ask = |priority| {
        let asked = RequestScheduling {
            priority,
            deadline: None,
        };
        batcher.submit(row(), asked)
    };
    let pending: Vec<Pending> = [3, 0, 1].map(|it| ask(it).expect("a level")).into();
    let error = ask(4).expect_err("no such level");
    assert_eq!(error.message, "`priority` is 4, and the levels are 1 to 3");
    let mut answers = Vec::new();
    for calls in 2..=4 {
        model.gate.let_pass(calls - 1);
        model.gate.wait_for(calls);
    }
    model.gate.let_pass(4);
    result(busy).expect("computed");
    for pending in pending {
        answers.push(block_on(pending).expect("computed").queued);
    }
    let [third, second, first] = answers[..] else {
        panic!("three answers");
    };
    assert!(first < second && second < third, "{answers:?}");
}

#[test]
fn a_full_queue_refuses_and_has_room_again() {
    let (model, batcher) = batcher(
        Batching {
            levels: vec![BatchingLevel {
                max_queue_size: 2,
                ..BatchingLevel::default()
            }],
            ..batching(1)
        },
        Gate::default(),
    );
    let busy = occupy(&batcher, &model);
    let waiting = [submit(&batcher, row()), submit(&batcher, row())];
    let error = batcher
        .submit(row(), RequestScheduling::default())
        .expect_err("full");
    assert_eq!(error.kind, Kind::ResourceExhausted);
    assert_eq!(
        error.message,
        "2 requests wait for `matmul`, which is the limit (max_queue_size)"
    );
    drop(waiting);
    let last = submit(&batcher, row());
    model.gate.let_pass(usize::MAX);
    result(busy).expect("computed");
    result(last).expect("computed");
    assert_eq!(batcher.measurements().refused, 1);
}

#[test]
fn time_limits_hold_while_the_model_is_stuck() {
    let level = |timeout_action| BatchingLevel {
        timeout_microseconds: 1000,
        timeout_action,
        ..BatchingLevel::default()
    };
    let (model, batcher) = batcher(
        Batching {
            levels: vec![level(TimeoutAction::Reject), level(TimeoutAction::Delay)],
            ..batching(1)
        },
        Gate::default(),
    );
    let within = |milliseconds| Some(Instant::now() + Duration::from_millis(milliseconds));
    let ask = |priority, deadline| {
        let asked = RequestScheduling { priority, deadline };
        batcher.submit(row(), asked).expect("taken")
    };
    // Of the level that may wait, and with a deadline long enough that the model is called before.
    let running = ask(2, within(4000));
    model.gate.wait_for(1);
    let (refused, late, dead) = (ask(1, None), ask(2, None), ask(2, within(20)));
    let error = result(refused).expect_err("it waited too long");
    assert_eq!(error.kind, Kind::ResourceExhausted);
    assert!(
        error
            .message
            .contains("which is the limit (default_timeout_microseconds)")
    );
    for pending in [running, dead] {
        let error = result(pending).expect_err("its deadline passed");
        assert_eq!(error.kind, Kind::DeadlineExceeded);
    }
    assert_eq!(batcher.waiting(), 1);
    model.gate.let_pass(usize::MAX);
    result(late).expect("late, and computed");
    assert_eq!(batcher.measurements().finished[2], ("timeout", 3));
    assert_eq!(model.calls(), [1, 1]);
}

#[test]
fn a_thousand_that_leave_the_queue_leave_nothing() {
    let (model, batcher) = batcher(batching(8), Gate::default());
    let busy = occupy(&batcher, &model);
    let waiting: Vec<Pending> = (0..1000).map(|_| submit(&batcher, row())).collect();
    assert_eq!(batcher.waiting(), 1000);
    drop(waiting);
    assert_eq!(batcher.waiting(), 0);
    assert_eq!(batcher.measurements().finished[3], ("cancelled", 1000));
    model.gate.let_pass(usize::MAX);
    result(busy).expect("computed");
    let good = row();
    is_right(&model, &good, submit(&batcher, good.clone()));
    assert_eq!(model.calls(), [1, 1]);
}

#[test]
fn a_dropped_batcher_ends_its_threads_and_tells_who_waits() {
    let (model, batcher) = batcher(batching(1), Gate::default());
    let running = occupy(&batcher, &model);
    let waiting = submit(&batcher, row());
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            drop(batcher);
        });
        barrier.wait();
        let error = result(waiting).expect_err("never computed");
        assert_eq!(error.kind, Kind::Unavailable);
        model.gate.let_pass(usize::MAX);
    });
    result(running).expect("its batch was under way");
    assert_eq!(model.calls(), [1]);
    assert_eq!(Arc::strong_count(&model), 1, "no thread has the model");
}

#[test]
fn shorter_requests_are_padded_where_told() {
    let sums = |inputs: Vec<Tensor>| {
        let (rows, length) = (inputs[0].shape()[0], inputs[0].shape()[1]);
        let sums: Vec<f32> = numbers(&inputs[0])
            .chunks(length)
            .map(|row| row.iter().sum())
            .collect();
        Ok(vec![floats(&[rows], &sums), inputs[0].clone()])
    };
    let padded = Batching {
        ragged: RaggedPolicy::Pad,
        pad_value: PadValue(0.5),
        ..of_size(3)
    };
    let batcher = Batcher::new("sums", Arc::new(Anything(sums)), padded).expect("valid");
    let long = submit(&batcher, vec![floats(&[1, 3], &[1.0, 2.0, 3.0])]);
    let short = submit(&batcher, vec![floats(&[2, 1], &[7.0, 8.0])]);
    let (long, short) = (result(long).expect("good"), result(short).expect("good"));
    assert_eq!(numbers(&long[0]), [6.0]);
    assert_eq!(numbers(&short[0]), [8.0, 9.0]);
    // Only dimension 0 is cut back.
    assert_eq!(short[1].shape(), [2, 3]);
    assert_eq!(numbers(&short[1]), [7.0, 0.5, 0.5, 8.0, 0.5, 0.5]);
}

#[test]
fn requests_of_different_shapes_are_never_together_by_default() {
    let lengths = std::sync::Mutex::new(Vec::new());
    let lengths = Arc::new(lengths);
    let seen = Arc::clone(&lengths);
    let model = move |inputs: Vec<Tensor>| -> Result<Vec<Tensor>, Error> {
        seen.lock().expect("free").push(inputs[0].shape().to_vec());
        Ok(inputs)
    };
    let batcher = Batcher::new("same", Arc::new(Anything(model)), of_size(2)).expect("valid");
    let pending: Vec<Pending> = [2, 3, 2, 3]
        .map(|length| submit(&batcher, vec![floats(&[1, length], &vec![0.0; length])]))
        .into();
    for (pending, length) in pending.into_iter().zip([2, 3, 2, 3]) {
        assert_eq!(result(pending).expect("good")[0].shape(), [1, length]);
    }
    let mut seen = lengths.lock().expect("free").clone();
    seen.sort();
    assert_eq!(seen, [[2, 2], [2, 3]]);
}
