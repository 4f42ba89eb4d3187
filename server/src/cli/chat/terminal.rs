//! The interactive conversation: editable lines and commands.

use std::{
    io::{self, Write as _},
    path::Path,
};

use rustyline::{DefaultEditor, error::ReadlineError};
use tokio::runtime::Runtime;

use super::{
    Client,
    conversation::{AnswerEnd, Conversation, Said},
    image,
};

const HELP: &str = "/system TEXT  set the system message; without TEXT, remove it
/image FILE   add an image to the next question
/reset        start a new conversation
/help         show this list
/exit         quit, as Ctrl-D does; Ctrl-C stops an answer";

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// A line of input: a command, or something to say to the model.
#[derive(Debug, PartialEq, Eq)]
enum TerminalLine<'a> {
    Nothing,
    Question(&'a str),
    System(&'a str),
    Image(&'a str),
    Reset,
    Help,
    Exit,
    Unknown(&'a str),
}

impl<'a> TerminalLine<'a> {
    fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() {
                Self::Nothing
            } else {
                Self::Question(line)
            };
        };
        let (name, rest) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        match name {
            "system" => Self::System(rest.trim()),
            "image" => Self::Image(rest.trim()),
            "reset" => Self::Reset,
            "help" => Self::Help,
            "exit" => Self::Exit,
            _ => Self::Unknown(name),
        }
    }
}

/// Reads lines and answers them until the user exits.
pub(super) fn talk(
    runtime: &Runtime,
    client: &Client,
    mut conversation: Conversation,
    models: &[String],
) -> Result<(), String> {
    let mut editor = DefaultEditor::new().map_err(|error| broken(&error))?;
    note(&format!(
        "talking to {}; /help lists the commands",
        conversation.model
    ));
    if models.len() > 1 {
        note(&format!(
            "--model_name chooses another: {}",
            models.join(", ")
        ));
    }
    let mut interrupted = false;
    loop {
        let line = match editor.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) if !interrupted => {
                interrupted = true;
                note("Ctrl-C again or Ctrl-D exits");
                continue;
            }
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(broken(&error)),
        };
        interrupted = false;
        // Fails if the line cannot be stored. It can be typed again.
        editor.add_history_entry(line.as_str()).ok();
        match TerminalLine::parse(&line) {
            TerminalLine::Nothing => {}
            TerminalLine::Exit => return Ok(()),
            TerminalLine::Help => note(HELP),
            TerminalLine::Reset => {
                conversation.reset();
                note("started a new conversation");
            }
            TerminalLine::System(text) => {
                conversation.instruct(text);
                note(match text {
                    "" => "removed the system message",
                    _ => "set the system message",
                });
            }
            TerminalLine::Image(file) => match image::part(Path::new(file)) {
                Ok(picture) => {
                    conversation.show(picture);
                    note("attached to the next question");
                }
                Err(message) => note(&format!("error: {message}")),
            },
            TerminalLine::Unknown(name) => note(&format!("unknown command /{name}:\n{HELP}")),
            TerminalLine::Question(question) => {
                let end = runtime.block_on(conversation.ask(client, question, print));
                // If this fails, the terminal is gone. Reading the next line reports it.
                let _ = writeln!(io::stdout(), "{PLAIN}");
                match end {
                    Ok(AnswerEnd::Stopped) => interrupted = true,
                    Ok(AnswerEnd::All | AnswerEnd::Unread) => {}
                    Err(message) => note(&format!("error: {message}")),
                }
            }
        }
    }
}

fn broken(error: &ReadlineError) -> String {
    format!("cannot read from the terminal: {error}")
}

fn note(text: &str) {
    // As above, the next line reports a failure.
    let _ = writeln!(io::stdout(), "{DIM}{text}{PLAIN}");
}

fn print(said: Said<'_>) -> bool {
    let mut output = io::stdout();
    let written = match said {
        Said::Reasoning(text) => write!(output, "{DIM}{}{PLAIN}", shown(text)),
        Said::Answer(text) => write!(output, "{}", shown(text)),
    };
    written.and_then(|()| output.flush()).is_ok()
}

/// Removes the control characters that a terminal would obey.
fn shown(text: &str) -> String {
    let is_shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_questions_or_commands() {
        for (line, meant) in [
            ("  ", TerminalLine::Nothing),
            (" What? ", TerminalLine::Question("What?")),
            ("/system  Be brief. ", TerminalLine::System("Be brief.")),
            ("/system", TerminalLine::System("")),
            ("/image a picture.png", TerminalLine::Image("a picture.png")),
            ("/reset", TerminalLine::Reset),
            ("/exit", TerminalLine::Exit),
            ("/sytem x", TerminalLine::Unknown("sytem")),
        ] {
            assert_eq!(TerminalLine::parse(line), meant);
        }
        assert_eq!(shown("a\x1b[31mb\nc\r"), "a[31mb\nc");
    }
}
