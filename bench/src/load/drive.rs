//! Carries out a plan against a server.

use std::{rc::Rc, time::Instant};

use reqwest::Client;
use tokio::{sync::watch, task::LocalSet};

use super::{
    client::{self, Message, Reply, Target},
    plan::{Actor, After, Plan, Role},
    words::{Measure, WORDS},
};

/// A request and what came of it. Times are in seconds from the beginning of the load.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The part that its actor has.
    pub role: Role,
    /// Its actor's place in the plan.
    pub actor: usize,
    /// When it was sent.
    pub sent: f64,
    /// When each piece of text arrived.
    pub pieces: Vec<f64>,
    /// When the answer was complete.
    pub ended: f64,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the prompt that did not have to be computed; `None` if the server does not say.
    pub cached_tokens: Option<u32>,
    /// Tokens of the prompt and of all that was said before that were no part of the request
    /// before, if that is known.
    pub new_tokens: u32,
    /// Tokens generated.
    pub tokens: u32,
    /// What went wrong.
    pub error: Option<String>,
}

/// What an actor has done so far.
#[derive(Clone, Copy, Default)]
struct Progress {
    pieces: usize,
    ended: bool,
}

/// Everyone's view of an actor.
type Board = Rc<Vec<watch::Sender<Progress>>>;

/// Carries out a plan; returns all samples and how long it took, in seconds.
pub async fn run(client: &Client, target: &Target, plan: &Plan) -> (Vec<Sample>, f64) {
    let board: Board = Rc::new(
        plan.actors
            .iter()
            .map(|_| watch::Sender::default())
            .collect(),
    );
    let begun = Instant::now();
    let local = LocalSet::new();
    let mut tasks = Vec::new();
    for (number, actor) in plan.actors.iter().enumerate() {
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

/// Finds out how many tokens a text of random words has here.
///
/// # Errors
///
/// What went wrong with a request.
pub async fn measure(client: &Client, target: &Target) -> Result<Measure, String> {
    let mut counts = Vec::new();
    for times in [1, 2] {
        // Every word as often as every other: the mean is exact.
        let text = vec![WORDS.join(" "); times].join(" ");
        let message = Message {
            role: "user",
            content: text,
        };
        let reply = client::complete(client, target, &[message], 1, || {}).await;
        if let Some(error) = reply.error {
            return Err(error);
        }
        counts.push((times * WORDS.len(), reply.usage.prompt_tokens));
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
    wait(actor.after, board).await;
    tokio::time::sleep(actor.delay).await;
    let system = actor.system.map(|content| Message {
        role: "system",
        content,
    });
    let mut messages: Vec<Message> = system.into_iter().collect();
    let fresh = messages.len();
    let mut samples = Vec::new();
    let mut known = 0;
    for turn in actor.turns {
        messages.push(Message {
            role: "user",
            content: turn.text,
        });
        let on_piece = || board[number].send_modify(|progress| progress.pieces += 1);
        let reply = client::complete(client, target, &messages, turn.max_tokens, on_piece).await;
        let sample = sample(actor.role, number, &reply, known, begun);
        let failed = sample.error.is_some();
        samples.push(sample);
        if failed {
            break;
        }
        if actor.remembers {
            // The last token of a reply was chosen and never computed.
            let said = reply.usage.completion_tokens.saturating_sub(1);
            known = reply.usage.prompt_tokens + said;
            messages.push(Message {
                role: "assistant",
                content: reply.text,
            });
        } else {
            messages.truncate(fresh);
        }
    }
    board[number].send_modify(|progress| progress.ended = true);
    samples
}

/// Waits for an event; the end of the actor that was to bring it is one too.
async fn wait(after: Option<After>, board: &Board) {
    let (actor, pieces) = match after {
        None => return,
        Some(After::Pieces(actor, pieces)) => (actor, pieces),
        Some(After::End(actor)) => (actor, usize::MAX),
    };
    let happened = |progress: &Progress| progress.ended || progress.pieces >= pieces;
    // The sender is on the board and outlives the wait.
    board[actor].subscribe().wait_for(happened).await.ok();
}

fn sample(role: Role, actor: usize, reply: &Reply, known: u32, begun: Instant) -> Sample {
    let seconds = |time: Instant| (time - begun).as_secs_f64();
    let usage = reply.usage;
    Sample {
        role,
        actor,
        sent: seconds(reply.sent),
        pieces: reply.pieces.iter().map(|time| seconds(*time)).collect(),
        ended: seconds(reply.ended),
        prompt_tokens: usage.prompt_tokens,
        cached_tokens: usage
            .prompt_tokens_details
            .and_then(|details| details.cached_tokens),
        new_tokens: usage.prompt_tokens.saturating_sub(known),
        tokens: usage.completion_tokens,
        error: reply.error.clone(),
    }
}
