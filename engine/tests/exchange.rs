//! What a session and other threads exchange, under a model checker: the file is taken as it is and
//! run in many interleavings, of which none may lose a packet or a wake-up. A lost wake-up is a
//! deadlock, which the checker reports.

#[path = "../src/session/mailbox.rs"]
#[expect(dead_code, reason = "the model does not use all that the session does")]
mod mailbox;

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use shuttle::{
    future::block_on,
    sync::{Arc, Mutex},
    thread,
};

use mailbox::{CAPACITY, Exchange, Next, PushOutcome};

/// The room of the one graph input.
const ROOM: usize = 2;
const PUSHERS: u32 = 2;
/// Of each pusher: together more than an output holds.
const PACKETS: u32 = CAPACITY as u32 / 2 + 3;
const INTERLEAVINGS: usize = 2000;

/// What the session is told.
enum Message {
    Packet(u32),
    Event,
    Close,
}

type Shared = Arc<Mutex<Exchange<Message, u32>>>;

fn lock(shared: &Shared) -> shuttle::sync::MutexGuard<'_, Exchange<Message, u32>> {
    shared.lock().expect("nobody panics")
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A session that passes packets from its input to its output, as far as the output has room. It
/// receives, works, hands over and sleeps in the order of the real one.
struct Session {
    shared: Shared,
    output: usize,
    inbox: VecDeque<Message>,
    queue: VecDeque<u32>,
    local: Vec<u32>,
    events: u32,
    closed: bool,
    /// Whether it believes that it may sleep only if it is told so.
    careful: bool,
}

impl Future for Session {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        let session = &mut *self;
        loop {
            let unread = {
                let mut exchange = lock(&session.shared);
                exchange.receive(&mut session.inbox);
                exchange.unread(session.output)
            };
            for message in session.inbox.drain(..) {
                match message {
                    Message::Packet(packet) => session.queue.push_back(packet),
                    Message::Event => session.events += 1,
                    Message::Close => session.closed = true,
                }
            }
            let room = unread.map_or(usize::MAX, |unread| CAPACITY - unread);
            let passed = room.min(session.queue.len());
            session.local.extend(session.queue.drain(..passed));
            let full = passed == room;
            let done = session.closed && session.queue.is_empty();
            let mut wakers = Vec::new();
            let mut exchange = lock(&session.shared);
            exchange.hand_over(session.output, &mut session.local, done, &mut wakers);
            exchange.open(0, ROOM - session.queue.len().min(ROOM), &mut wakers);
            let mut asleep = false;
            if done {
                drop(exchange.end(&mut wakers));
            } else {
                let full = full.then_some(session.output);
                asleep = exchange.sleep(full.into_iter(), cx) || !session.careful;
            }
            drop(exchange);
            wakers.into_iter().for_each(Waker::wake);
            if done {
                return Poll::Ready(session.events);
            }
            if asleep {
                return Poll::Pending;
            }
        }
    }
}

async fn push(shared: &Shared, packet: u32) {
    poll_fn(|cx| {
        let pushed = lock(shared).push(0, Message::Packet(packet), Some(cx));
        match pushed {
            PushOutcome::Yes(waker) => {
                wake(waker);
                Poll::Ready(())
            }
            PushOutcome::Full(_) => Poll::Pending,
        }
    })
    .await;
}

async fn next(shared: &Shared, output: usize) -> Option<u32> {
    poll_fn(|cx| {
        let next = lock(shared).next(output, Some(cx));
        match next {
            Next::Packet(packet, waker) => {
                wake(waker);
                Poll::Ready(Some(packet))
            }
            Next::Empty => Poll::Pending,
            Next::Closed => Poll::Ready(None),
        }
    })
    .await
}

/// Pushers, somebody who sends events, a reader and a session, each a thread; the reader takes
/// `reads` packets and goes.
fn run(reads: usize, careful: bool) {
    let mut exchange = Exchange::new(std::iter::once(ROOM));
    let output = exchange.add_output();
    let shared = Arc::new(Mutex::new(exchange));
    let session = Session {
        shared: Arc::clone(&shared),
        output,
        inbox: VecDeque::new(),
        queue: VecDeque::new(),
        local: Vec::new(),
        events: 0,
        closed: false,
        careful,
    };
    let session = thread::spawn(|| block_on(session));
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|pusher| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                block_on(async {
                    for number in 0..PACKETS {
                        push(&shared, pusher * PACKETS + number).await;
                    }
                });
            })
        })
        .collect();
    let reader = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let mut read = Vec::new();
            block_on(async {
                while read.len() < reads
                    && let Some(packet) = next(&shared, output).await
                {
                    read.push(packet);
                }
            });
            let (_, waker) = lock(&shared).abandon(output);
            wake(waker);
            read
        })
    };
    let waker = lock(&shared).post(Message::Event);
    wake(waker);
    for pusher in pushers {
        pusher.join().expect("pushes all");
    }
    let waker = lock(&shared).close(0, Message::Close);
    wake(waker);
    assert_eq!(session.join().expect("ends"), 1, "events");
    let read = reader.join().expect("reads");
    let total = (PUSHERS * PACKETS) as usize;
    assert_eq!(read.len(), reads.min(total), "{read:?}");
    for pusher in 0..PUSHERS {
        let own = read.iter().filter(|&&packet| packet / PACKETS == pusher);
        assert!(own.is_sorted(), "packets overtake each other: {read:?}");
    }
}

#[test]
fn no_packet_and_no_wake_up_is_lost() {
    shuttle::check_random(|| run(usize::MAX, true), INTERLEAVINGS);
    shuttle::check_pct(|| run(usize::MAX, true), INTERLEAVINGS, 3);
}

#[test]
fn a_reader_that_goes_stops_nobody() {
    shuttle::check_random(|| run(3, true), INTERLEAVINGS);
    shuttle::check_pct(|| run(3, true), INTERLEAVINGS, 3);
}

#[test]
fn a_session_that_sleeps_without_a_last_look_is_found_out() {
    let found = catch_unwind(AssertUnwindSafe(|| {
        shuttle::check_random(|| run(usize::MAX, false), INTERLEAVINGS);
    }));
    assert!(
        found.is_err(),
        "the checker finds no lost wake-up in a session that loses them"
    );
}
