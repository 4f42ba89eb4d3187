//! Carries out a plan against a server.

use std::{rc::Rc, time::Instant};

use reqwest::Client;
use tokio::{sync::watch, task::LocalSet};

use super::{
    client::{self, Reply, Target, message},
    plan::Actor,
    words::{Measure, WORDS},
};

/// A request and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Its actor's place in the plan.
    pub(crate) actor: usize,
    /// True for what arrives among running streams.
    pub(crate) arrives: bool,
    /// Tokens of the prompt that neither the request before nor its answer had, as far as that is
    /// known.
    pub(crate) new_tokens: u64,
    /// The answer to the request.
    pub(crate) reply: Reply,
}

/// Pieces of text that each actor has had; the most there are once it has ended.
type Board = Rc<Vec<watch::Sender<usize>>>;

/// Carries out a plan; returns all samples and how long it took, in seconds.
pub(crate) async fn run(client: &Client, target: &Target, plan: &[Actor]) -> (Vec<Sample>, f64) {
    let board: Board = Rc::new(plan.iter().map(|_| watch::Sender::default()).collect());
    let begun = Instant::now();
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for (number, actor) in plan.iter().enumerate() {
        let (client, target, actor) = (client.clone(), target.clone(), actor.clone());
        let board = Rc::clone(&board);
        let act = async move { act(&client, &target, number, actor, &board, begun).await };
        tasks.push(local.spawn_local(act));
    }
    let samples = local.run_until(async {
        let mut samples = Vec::new();
        for task in tasks {
            // A task ends without a result only if it panicked; then the bench has a mistake.
            samples.extend(task.await.expect("an actor does not panic"));
        }
        samples
    });
    (samples.await, begun.elapsed().as_secs_f64())
}

/// Finds out how many tokens a text of random words has here. The error is what went wrong with a
/// request.
pub(crate) async fn measure(client: &Client, target: &Target) -> Result<Measure, String> {
    let mut counts = Vec::new();
    for times in [1, 2] {
        // Every word as often as every other: the mean is exact.
        let text = vec![WORDS.join(" "); times].join(" ");
        let messages = [message("user", &text)];
        let reply = client::complete(client, target, &messages, 1, Instant::now(), || {}).await;
        if let Some(error) = reply.error {
            return Err(error);
        }
        counts.push((times * WORDS.len(), reply.prompt_tokens));
    }
    Ok(Measure::from_two(counts[0], counts[1]))
}

async fn act(
    client: &Client,
    target: &Target,
    number: usize,
    actor: Actor,
    board: &Board,
    begun: Instant,
) -> Vec<Sample> {
    if let Some((other, pieces)) = actor.after {
        let mut progress = board[other].subscribe();
        // The sender is on the board and outlives the wait.
        progress.wait_for(|had| *had >= pieces).await.ok();
    }
    tokio::time::sleep(actor.delay).await;
    let system = actor.system.map(|content| message("system", &content));
    let mut messages: Vec<_> = system.into_iter().collect();
    let fresh = messages.len();
    let mut samples = Vec::new();
    let mut known = 0;
    for turn in actor.turns {
        messages.push(message("user", &turn));
        let on_piece = || board[number].send_modify(|pieces| *pieces += 1);
        let most = actor.max_tokens;
        let reply = client::complete(client, target, &messages, most, begun, on_piece).await;
        samples.push(Sample {
            actor: number,
            arrives: actor.after.is_some(),
            new_tokens: reply.prompt_tokens.saturating_sub(known),
            reply: reply.clone(),
        });
        if reply.error.is_some() {
            break;
        }
        if actor.remembers {
            // The last token of a reply was chosen and never computed.
            known = reply.prompt_tokens + reply.tokens.saturating_sub(1);
            messages.push(message("assistant", &reply.text));
        } else {
            messages.truncate(fresh);
        }
    }
    board[number].send_modify(|pieces| *pieces = usize::MAX);
    samples
}
