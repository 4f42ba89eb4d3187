//! Panics in the log, without the texts that were being processed.

use std::{any::Any, panic, thread};

use super::shown;

/// Sends panic messages to the log instead of standard error, which might block.
pub(super) fn log_them() {
    panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let place = panic.location().map(ToString::to_string);
        tracing::error!(
            thread = thread.name(),
            place,
            "panic: {}",
            without_texts(payload(panic.payload()))
        );
    }));
}

/// Returns the message of a panic.
pub(crate) fn payload(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Removes texts from the message of a failure. Indexing a string wrongly panics with that string
/// after a backtick, and it may be a prompt.
pub(crate) fn without_texts(message: &str) -> String {
    let phrases = ["byte index", "when slicing", "char boundary"];
    let quoted = phrases
        .iter()
        .filter_map(|phrase| message.find(phrase))
        .min()
        .and_then(|at| Some(at + message[at..].find('`')?));
    match quoted {
        Some(at) => format!("{}`…`", shown(&message[..at])),
        None => shown(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_cut_wrongly_is_not_shown() {
        let text = "a secret é";
        let panics: [fn(&str) -> &str; 3] =
            [|text| &text[10..], |text| &text[99..], |text| &text[..99]];
        for wrong in panics {
            let panic = panic::catch_unwind(|| wrong(text).len()).expect_err("it panics");
            let said = payload(&*panic).to_owned();
            let logged = without_texts(&format!("the step panicked: {said}"));
            assert!(logged.starts_with("the step panicked: "), "{logged}");
            assert!(!logged.contains("secret"), "{logged}");
        }
        assert_eq!(without_texts("`x` is `y`"), "`x` is `y`");
    }
}
