//! The token that a script has next.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{IM_END, IM_START, SPECIALS, ScriptedBackend, Then};
use crate::backend::{Adapter, DecodeError};
use crate::protocol::Token;

const ASSISTANT: &[u8] = b"assistant\n";

/// A token of a reply, as the adapter has it.
fn adapted(token: Token, adapter: Option<Adapter>) -> Token {
    let further = adapter.map_or(0, |adapter| (adapter.0 % 26) as u8 + 1);
    let rotated = |byte: u8, first: u8| first + (byte - first + further) % 26;
    match u8::try_from(token) {
        Ok(byte @ b'a'..=b'z') => Token::from(rotated(byte, b'a')),
        Ok(byte @ b'A'..=b'Z') => Token::from(rotated(byte, b'A')),
        _ => token,
    }
}

impl ScriptedBackend {
    /// Waits for what the script says.
    fn hang(&self) {
        /// How often it is looked for.
        const LOOK: Duration = Duration::from_millis(2);
        let released = || {
            self.script
                .release
                .as_ref()
                .is_some_and(|file| file.exists())
        };
        while !released() {
            std::thread::sleep(LOOK);
        }
    }

    /// The token after `history`.
    pub(super) fn next_token(
        &self,
        history: &[Token],
        adapter: Option<Adapter>,
    ) -> Result<Token, DecodeError> {
        let Some((before, said)) = assistant_turn(history) else {
            let last = history
                .iter()
                .rev()
                .find(|token| **token < 256)
                .copied()
                .unwrap_or(0);
            return Ok((last + 1) % 256);
        };
        let before = self.vocab.text(before);
        let mut replies = self.script.replies.iter().zip(&self.answers);
        let reply = replies.find(|(reply, _)| before.contains(&reply.when));
        let repeated;
        let (answer, then) = if let Some((reply, answer)) = reply {
            (answer, reply.then)
        } else {
            repeated = self.vocab.read(last_user_message(&before), SPECIALS.len());
            (&repeated, Then::End)
        };
        if let Some(token) = answer.get(said) {
            return Ok(adapted(*token, adapter));
        }
        match then {
            Then::Repeat if !answer.is_empty() => Ok(adapted(answer[said % answer.len()], adapter)),
            Then::Fail => Err(DecodeError::Failed("scripted failure".to_owned())),
            Then::Panic => panic!("scripted panic"),
            Then::Die => {
                self.dies.store(true, Ordering::Relaxed);
                panic!("scripted death")
            }
            Then::Hang => {
                self.hang();
                Ok(IM_END)
            }
            Then::End | Then::Repeat => Ok(IM_END),
        }
    }
}

/// Splits the history at the assistant's turn, if it is in one: what came before, and how many
/// tokens of the turn there are.
fn assistant_turn(history: &[Token]) -> Option<(&[Token], usize)> {
    let start = history.iter().rposition(|token| *token == IM_START)?;
    let turn = &history[start + 1..];
    let role = turn.get(..ASSISTANT.len())?;
    let is_assistant = role
        .iter()
        .zip(ASSISTANT)
        .all(|(token, byte)| *token == Token::from(*byte));
    is_assistant.then(|| (&history[..start], turn.len() - ASSISTANT.len()))
}

fn last_user_message(before: &str) -> &str {
    let Some((_, message)) = before.rsplit_once("<|im_start|>user\n") else {
        return "";
    };
    message.split("<|im_end|>").next().unwrap_or("")
}
