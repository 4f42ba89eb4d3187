//! Chat templates that requests bring.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::chat_template::{ChatTemplate, TemplateError};

/// Templates that are kept compiled: clients send the same one again and again.
const KEPT: usize = 8;

/// The last templates, the most recent one first.
static TEMPLATES: Mutex<VecDeque<Arc<ChatTemplate>>> = Mutex::new(VecDeque::new());

/// Compiles a template, or finds it among the last ones.
///
/// # Errors
/// The reason why it does not compile, with its line.
pub(crate) fn compiled(source: &str) -> Result<Arc<ChatTemplate>, TemplateError> {
    let lock = || TEMPLATES.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = {
        let mut kept = lock();
        let found = kept.iter().position(|it| it.source() == source);
        found.and_then(|place| kept.remove(place))
    };
    let template = match taken {
        Some(template) => template,
        // Others need not wait for it.
        None => Arc::new(ChatTemplate::new(source)?),
    };
    let mut kept = lock();
    kept.push_front(Arc::clone(&template));
    kept.truncate(KEPT);
    Ok(template)
}
