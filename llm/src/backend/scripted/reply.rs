//! Choice of a script's next token.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{IM_END, IM_START, SPECIALS, ScriptedBackend, Then};
use crate::backend::{Adapters, DecodeError};
use crate::protocol::Token;

/// Moves a letter of a reply on in the alphabet, by the number of each adapter plus one, times its
/// scale.
fn adapted(token: Token, adapters: Adapters) -> Token {
    let letters = adapters
        .iter()
        .map(|it| (it.number + 1) as f32 * it.scale.get());
    let further = (letters.sum::<f32>().round() as i32).rem_euclid(26) as u8;
    let rotated = |byte: u8, first: u8| first + (byte - first + further) % 26;
    match u8::try_from(token) {
        Ok(byte @ b'a'..=b'z') => Token::from(rotated(byte, b'a')),
        Ok(byte @ b'A'..=b'Z') => Token::from(rotated(byte, b'A')),
        _ => token,
    }
}

impl ScriptedBackend {
    /// Blocks until the script's `release` file exists.
    fn hang(&self) {
        /// Interval between two looks for the file.
        const LOOK: Duration = Duration::from_millis(2);
        let release = self.script.release.as_deref();
        while !release.is_some_and(Path::exists) {
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the token that follows `history`.
    pub(super) fn next_token(
        &self,
        history: &[Token],
        adapters: Adapters,
    ) -> Result<Token, DecodeError> {
        let turns = self.turns.iter();
        let mut turns: Vec<_> = turns
            .filter_map(|turn| assistant_turn(history, turn))
            .collect();
        let latest = turns.iter().map(|(before, _)| before.len()).max();
        turns.retain(|(before, _)| Some(before.len()) == latest);
        let Some((before, after)) = turns.first() else {
            let last = history.iter().rfind(|token| **token < 256);
            return Ok((last.unwrap_or(&0) + 1) % 256);
        };
        let before = self.vocab.text(before);
        let mut replies = self.script.replies.iter().zip(&self.answers);
        let reply = replies.find(|(reply, _)| before.contains(&reply.when));
        let repeated;
        let (answer, then) = if let Some((reply, answer)) = reply {
            (answer, reply.then)
        } else {
            let message = last_user_message(&before).ok_or_else(|| {
                let why = "no reply of the script matches: no `when` occurs in the conversation";
                DecodeError::Failed(why.to_owned())
            })?;
            repeated = self.vocab.read(message, SPECIALS.len());
            (&repeated, Then::End)
        };
        // A reply may begin as a longer turn goes on: with an empty thought.
        let is_begun = |after: &[Token]| {
            let mut tokens = after.iter().zip(answer.iter().cycle());
            tokens.all(|(said, token)| *said == adapted(*token, adapters))
        };
        let said = if is_begun(after) {
            after.len()
        } else {
            turns.last().map_or(0, |(_, after)| after.len())
        };
        if let Some(token) = answer.get(said) {
            return Ok(adapted(*token, adapters));
        }
        match then {
            Then::Repeat if !answer.is_empty() => {
                Ok(adapted(answer[said % answer.len()], adapters))
            }
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
            Then::Spoil => {
                self.spoiled.store(true, Ordering::Relaxed);
                Ok(IM_END)
            }
            Then::End | Then::Repeat => Ok(IM_END),
        }
    }
}

/// Splits the history at the last beginning of an assistant's turn, if that turn is still open: the
/// tokens before it, and those of the turn.
fn assistant_turn<'h>(history: &'h [Token], turn: &[Token]) -> Option<(&'h [Token], &'h [Token])> {
    let start = history.windows(turn.len()).rposition(|part| part == turn)?;
    let after = &history[start + turn.len()..];
    // What begins every turn begins a later one that is not the assistant's.
    let is_over = turn[0] >= IM_START && after.contains(&turn[0]);
    (!is_over).then_some((&history[..start], after))
}

/// The last message of a user, if the conversation is in `ChatML`.
fn last_user_message(before: &str) -> Option<&str> {
    let (_, message) = before.rsplit_once("<|im_start|>user\n")?;
    message.split("<|im_end|>").next()
}
