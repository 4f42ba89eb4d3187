use super::*;

const MS: Duration = Duration::from_millis(1);

fn level() -> BatchingLevel {
    BatchingLevel {
        timeout_microseconds: 0,
        timeout_action: TimeoutAction::Reject,
        max_queue_size: 100,
    }
}

fn rules() -> Batching {
    Batching {
        max_queue_delay_microseconds: 10_000,
        levels: vec![level()],
        ..Batching::with_max_batch_size(8)
    }
}

/// A queue and its clock, in milliseconds.
struct Test {
    queue: Queue<char, ()>,
    start: Instant,
    number: u64,
}

impl Test {
    fn new(rules: Batching) -> Self {
        Self {
            queue: Queue::new(rules),
            start: Instant::now(),
            number: 0,
        }
    }

    fn at(&self, ms: u32) -> Instant {
        self.start + ms * MS
    }

    fn enter(&mut self, ms: u32, rows: usize) -> u64 {
        self.add(ms, rows, 'x', 0, None).expect("room")
    }

    fn add(
        &mut self,
        ms: u32,
        rows: usize,
        kind: char,
        level: usize,
        deadline: Option<u32>,
    ) -> Result<u64, Full> {
        self.number += 1;
        let waiting = QueuedRequest {
            number: self.number,
            kind,
            rows,
            arrived: self.at(ms),
            deadline: deadline.map(|ms| self.at(ms)),
            inputs: (),
        };
        self.queue.enter(level, waiting).map(|()| self.number)
    }

    fn next(&mut self, ms: u32) -> Next<u64> {
        let now = self.at(ms);
        match self.queue.next(now) {
            Next::Run(batch) => Next::Run(numbers(batch)),
            Next::Wait(until) => Next::Wait(until),
        }
    }

    fn expire(&mut self, ms: u32) -> Vec<(u64, Expiry)> {
        let expired = self.queue.expire(self.at(ms)).into_iter();
        expired
            .map(|(request, why)| (request.number, why))
            .collect()
    }

    fn waits(&mut self, now: u32, until: u32) {
        let until = self.at(until);
        assert_eq!(self.next(now), Next::Wait(Some(until)), "at {now} ms");
    }

    fn runs(&mut self, now: u32, numbers: &[u64]) {
        assert_eq!(self.next(now), Next::Run(numbers.into()), "at {now} ms");
    }
}

fn numbers(requests: Vec<QueuedRequest<char, ()>>) -> Vec<u64> {
    let numbers = requests.into_iter().map(|request| request.number);
    numbers.collect()
}

#[test]
fn a_batch_waits_for_its_oldest_request_and_no_longer() {
    let mut t = Test::new(rules());
    assert_eq!(t.next(0), Next::Wait(None));
    t.enter(0, 1);
    t.enter(4, 2);
    t.waits(9, 10);
    t.runs(10, &[1, 2]);
    assert_eq!(t.next(10), Next::Wait(None));
}

#[test]
fn without_a_delay_whatever_waits_is_computed() {
    let mut t = Test::new(Batching {
        max_queue_delay_microseconds: 0,
        preferred_batch_size: vec![4],
        ..rules()
    });
    t.enter(0, 1);
    t.runs(0, &[1]);
    for _ in 0..3 {
        t.enter(1, 3);
    }
    t.runs(1, &[2, 3]);
    t.runs(1, &[4]);
}

#[test]
fn a_full_batch_does_not_wait() {
    let mut t = Test::new(rules());
    t.enter(0, 5);
    t.enter(0, 2);
    t.waits(1, 10);
    t.enter(1, 2);
    t.runs(1, &[1, 2]);
    t.waits(1, 11);
    t.enter(2, 6);
    t.runs(2, &[3, 4]);
}

#[test]
fn a_preferred_size_does_not_wait() {
    let mut t = Test::new(Batching {
        preferred_batch_size: vec![2, 4],
        ..rules()
    });
    t.enter(0, 1);
    t.waits(0, 10);
    t.enter(1, 1);
    t.runs(1, &[1, 2]);
    for _ in 0..5 {
        t.enter(2, 1);
    }
    t.runs(2, &[3, 4, 5, 6]);
    t.waits(2, 12);
    t.runs(12, &[7]);
}

#[test]
fn only_requests_of_a_kind_are_together() {
    let mut t = Test::new(rules());
    t.add(0, 1, 'a', 0, None).expect("room");
    t.add(1, 1, 'b', 0, None).expect("room");
    t.add(2, 1, 'a', 0, None).expect("room");
    t.runs(10, &[1, 3]);
    t.waits(10, 11);
    t.runs(11, &[2]);
}

#[test]
fn the_first_level_goes_first() {
    let mut t = Test::new(Batching {
        max_batch_size: 2,
        levels: vec![level(), level()],
        ..rules()
    });
    t.add(0, 1, 'x', 1, None).expect("room");
    t.add(0, 1, 'x', 1, None).expect("room");
    t.add(1, 1, 'x', 0, None).expect("room");
    t.runs(1, &[3, 1]);
    t.waits(1, 10);
}

#[test]
fn who_waits_too_long_is_refused_or_set_back() {
    let timed = |timeout_action| BatchingLevel {
        timeout_microseconds: 5_000,
        timeout_action,
        ..level()
    };
    let mut t = Test::new(Batching {
        levels: vec![timed(TimeoutAction::Reject), timed(TimeoutAction::Delay)],
        max_batch_size: 2,
        ..rules()
    });
    t.add(0, 1, 'x', 0, None).expect("room");
    t.add(0, 1, 'x', 1, None).expect("room");
    t.add(4, 1, 'x', 1, None).expect("room");
    assert_eq!(t.queue.due(), Some(t.at(5)));
    assert!(t.queue.expire(t.at(4)).is_empty());
    assert_eq!(t.expire(5), [(1, Expiry::Timeout)]);
    assert_eq!(t.queue.due(), Some(t.at(9)));
    t.add(6, 1, 'x', 1, None).expect("room");
    t.runs(6, &[3, 4]);
    t.runs(10, &[2]);
}

#[test]
fn a_deadline_counts_whatever_the_level_says() {
    let mut t = Test::new(Batching {
        levels: vec![BatchingLevel {
            timeout_microseconds: 3_000,
            timeout_action: TimeoutAction::Delay,
            ..level()
        }],
        ..rules()
    });
    t.add(0, 1, 'x', 0, Some(7)).expect("room");
    t.add(0, 1, 'x', 0, Some(2)).expect("room");
    assert_eq!(t.expire(2), [(2, Expiry::Deadline)]);
    assert!(t.queue.expire(t.at(3)).is_empty());
    assert_eq!(t.queue.due(), Some(t.at(7)));
    assert_eq!(t.expire(8), [(1, Expiry::Deadline)]);
    assert_eq!((t.queue.due(), t.queue.len()), (None, 0));
}

#[test]
fn a_level_is_bounded_and_who_leaves_makes_room() {
    let mut t = Test::new(Batching {
        levels: vec![BatchingLevel {
            max_queue_size: 2,
            ..level()
        }],
        ..rules()
    });
    let first = t.enter(0, 1);
    t.enter(0, 1);
    assert_eq!(t.add(0, 1, 'x', 0, None), Err(Full(2)));
    assert!(t.queue.remove(first).is_some_and(|it| it.number == first));
    assert!(t.queue.remove(first).is_none());
    t.enter(0, 1);
    assert_eq!(numbers(t.queue.drain()), [2, 4]);
    assert_eq!(t.queue.len(), 0);
}
proptest::proptest! {
    #[test]
    fn each_request_leaves_once_and_in_good_company(
        asked in proptest::collection::vec((0_u32..20, 1_usize..=8, 0_usize..2, 0_usize..3), 1..60),
        preferred in proptest::collection::vec(1_u32..=8, 0..3),
    ) {
        let mut preferred = preferred;
        preferred.sort_unstable();
        let timed = |ms: u64, timeout_action| BatchingLevel {
            timeout_microseconds: ms * 1_000,
            timeout_action,
            ..level()
        };
        let mut t = Test::new(Batching {
            preferred_batch_size: preferred,
            levels: vec![timed(30, TimeoutAction::Reject), timed(5, TimeoutAction::Delay)],
            ..rules()
        });
        let (mut now, mut all, mut gone) = (0, Vec::new(), Vec::new());
        for (wait, rows, level, kind) in asked {
            now += wait;
            let kind = ['a', 'b', 'c'][kind];
            let number = t.add(now, rows, kind, level, None).expect("room");
            all.push((rows, kind));
            let at = t.at(now);
            gone.extend(t.queue.expire(at).into_iter().map(|(it, _)| it.number));
            if number.is_multiple_of(7) {
                gone.extend(t.queue.remove(number).map(|it| it.number));
            }
            while let Next::Run(batch) = t.queue.next(at) {
                let members = batch.iter().map(|it| all[it.number as usize - 1]);
                let rows: usize = members.clone().map(|it| it.0).sum();
                proptest::prop_assert!(!batch.is_empty() && rows <= 8);
                let kind = members.clone().map(|it| it.1).next();
                proptest::prop_assert!(members.clone().all(|it| Some(it.1) == kind));
                gone.extend(numbers(batch));
            }
        }
        // Nobody waits longer than the delay where nobody else comes.
        let end = t.at(now + 10);
        gone.extend(t.queue.expire(end).into_iter().map(|(it, _)| it.number));
        while let Next::Run(batch) = t.queue.next(end) {
            gone.extend(numbers(batch));
        }
        proptest::prop_assert_eq!(t.queue.len(), 0);
        gone.sort_unstable();
        let expected: Vec<u64> = (1..=all.len() as u64).collect();
        proptest::prop_assert_eq!(gone, expected);
    }
}
