//! Conversations that the server stores for clients of LMDeploy's `chat/interactive`. They are in
//! memory, expire, and belong to the client that began them.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use graphmill_calculators::payload::JsonBody;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    errors::{Cause, Failure},
    owner::Owner,
};

/// Idle time after which a conversation is removed.
const IDLE: Duration = Duration::from_mins(30);

/// Maximum size in bytes of a conversation that a request can continue.
const BYTES_OF_ONE: usize = 1 << 20;

/// Maximum number of conversations of one owner, and of their bytes. The one idle for longest is
/// removed first.
const OF_OWNER: (usize, usize) = (64, 4 << 20);

/// Maximum number of conversations of all owners together, and of their bytes.
const OF_ALL: (usize, usize) = (4_096, 64 << 20);

/// Session number that means no conversation.
const NONE: i64 = -1;

/// Receiver of the JSON of an answer, whole or piece by piece.
pub(crate) type Listener = Box<dyn FnMut(&[u8]) + Send + Sync>;

/// The stored conversations of all owners.
#[derive(Default)]
pub(crate) struct Conversations(Mutex<HashMap<ConversationKey, StoredConversation>>);

/// The key of a conversation: its owner, its graph and its session number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConversationKey {
    owner: Option<Owner>,
    graph: String,
    session: i64,
}

/// A stored conversation, with its number of tokens and the time of its last use.
struct StoredConversation {
    /// Messages as JSON, separated by commas. Parsed values would take many times the memory.
    messages: Arc<str>,
    tokens: u64,
    used: Instant,
}

/// The fields that are read from a piece of an answer.
#[derive(Deserialize)]
struct AnswerPiece {
    text: String,
    tokens: u64,
    input_tokens: u64,
    history_tokens: u64,
    finish_reason: Option<String>,
}

/// The effect of a request on its conversation.
pub(crate) enum Turn {
    /// Ends the conversation; the value is the answer.
    End(Value),
    /// Continues the conversation. The listener receives the answer; `None` if nothing is stored.
    Say(Option<Listener>),
}

impl Conversations {
    /// Inserts the earlier messages into the body of a request for a graph.
    ///
    /// # Errors
    /// If the conversation is too long.
    pub(crate) fn begin(
        self: &Arc<Self>,
        owner: Option<Owner>,
        graph: &str,
        body: &mut JsonBody,
    ) -> Result<Turn, Failure> {
        let session = body.short("session_id").and_then(Value::as_i64);
        let session = session.filter(|session| *session != NONE);
        let is_kept = body.short("interactive_mode") == Some(&Value::Bool(true));
        let key = session.map(|session| ConversationKey {
            owner,
            graph: graph.to_owned(),
            session,
        });
        let (said, tokens) = key.as_ref().map(|key| self.said(key)).unwrap_or_default();
        if let (Some(key), false) = (&key, is_kept)
            && body.short("request_output_len").and_then(Value::as_u64) == Some(0)
        {
            self.kept().remove(key);
            return Ok(Turn::End(json!({
                "text": "", "tokens": 0, "input_tokens": 0, "history_tokens": tokens,
                "finish_reason": "length",
            })));
        }
        let asked = messages(body.text("prompt").unwrap_or_default());
        body.insert_text("history", format!("[{said}]").into());
        body.insert("history_tokens", tokens.into());
        let Some(key) = key else {
            return Ok(Turn::Say(None));
        };
        let mut said = joined(&said, &asked);
        if said.len() > BYTES_OF_ONE {
            let why = format!(
                "`session_id` has a conversation of more than {BYTES_OF_ONE} bytes: begin another"
            );
            let failure = Failure::new(Cause::BadRequest, why).with_field("session_id");
            return Err(failure.with_code("invalid_value"));
        }
        let (conversations, mut reply) = (Arc::clone(self), String::new());
        Ok(Turn::Say(Some(Box::new(move |json| {
            let Ok(piece) = serde_json::from_slice::<AnswerPiece>(json) else {
                return;
            };
            reply.push_str(&piece.text);
            if piece.finish_reason.is_none() {
                return;
            }
            if is_kept {
                let reply = json!({ "role": "assistant", "content": std::mem::take(&mut reply) });
                let said = joined(&std::mem::take(&mut said), &reply.to_string());
                let tokens = piece.history_tokens + piece.input_tokens + piece.tokens;
                conversations.keep(key.clone(), said, tokens);
            } else {
                conversations.kept().remove(&key);
            }
        }))))
    }

    /// Returns the messages so far, and their number of tokens.
    fn said(&self, key: &ConversationKey) -> (Arc<str>, u64) {
        let kept = self.kept();
        let said = kept.get(key).map(|it| (it.messages.clone(), it.tokens));
        said.unwrap_or_default()
    }

    /// Removes expired conversations and returns the others.
    fn kept(&self) -> MutexGuard<'_, HashMap<ConversationKey, StoredConversation>> {
        let mut kept = self.0.lock();
        kept.retain(|_, conversation| conversation.used.elapsed() < IDLE);
        kept
    }

    fn keep(&self, key: ConversationKey, messages: String, tokens: u64) {
        let mut kept = self.kept();
        let owner = key.owner.clone();
        let conversation = StoredConversation {
            messages: messages.into(),
            tokens,
            used: Instant::now(),
        };
        kept.insert(key, conversation);
        forget(&mut kept, OF_OWNER, |key| key.owner == owner);
        forget(&mut kept, OF_ALL, |_| true);
    }
}

/// Removes the selected conversations that were idle for longest, until the others are within the
/// limits.
fn forget(
    kept: &mut HashMap<ConversationKey, StoredConversation>,
    (most, most_bytes): (usize, usize),
    is_of: impl Fn(&ConversationKey) -> bool,
) {
    loop {
        let of = kept.iter().filter(|(key, _)| is_of(key));
        let sizes = of.clone().map(|(_, it)| it.messages.len());
        let (count, bytes) = (sizes.clone().count(), sizes.sum::<usize>());
        if count <= most && bytes <= most_bytes {
            return;
        }
        let oldest = of.min_by_key(|(_, it)| it.used).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return };
        kept.remove(&oldest);
    }
}

/// Returns the messages of a prompt in JSON: a string of the user, or a list of messages.
fn messages(prompt: &[u8]) -> String {
    let prompt = String::from_utf8_lossy(prompt);
    let list = prompt.strip_prefix('[');
    match list.and_then(|list| list.strip_suffix(']')) {
        Some(list) => list.trim().to_owned(),
        None => format!(r#"{{"role":"user","content":{prompt}}}"#),
    }
}

/// Joins two lists of messages.
fn joined(before: &str, behind: &str) -> String {
    let is_single = before.is_empty() || behind.is_empty();
    [before, if is_single { "" } else { "," }, behind].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(name: &str, session: i64) -> ConversationKey {
        ConversationKey {
            owner: Some(Owner::Key(name.into())),
            graph: "chat".to_owned(),
            session,
        }
    }

    fn say(conversations: &Conversations, key: ConversationKey, text: &str) {
        conversations.keep(key, messages(json!(text).to_string().as_bytes()), 1);
    }

    #[test]
    fn what_waited_longest_is_forgotten_for_its_own_owner_alone() {
        let conversations = Conversations::default();
        say(&conversations, owned("other", 1), "Hi");
        for session in 0..100 {
            say(&conversations, owned("busy", session), "Hi");
        }
        let is_kept = |key| !conversations.said(&key).0.is_empty();
        assert!(is_kept(owned("other", 1)));
        let kept = (0..100).filter(|session| is_kept(owned("busy", *session)));
        assert_eq!(kept.collect::<Vec<_>>(), (36..100).collect::<Vec<_>>());
    }

    #[test]
    fn long_conversations_leave_room_for_few() {
        let conversations = Conversations::default();
        let long = "x".repeat(900 << 10);
        for session in 0..10 {
            say(&conversations, owned("busy", session), &long);
        }
        let kept = conversations.kept();
        let bytes: usize = kept.values().map(|it| it.messages.len()).sum();
        assert_eq!((kept.len(), bytes <= OF_OWNER.1), (4, true));
    }
}
