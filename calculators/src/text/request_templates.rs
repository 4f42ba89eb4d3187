//! Chat templates from requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::chat_template::{ChatTemplate, TemplateError};

/// Number of templates that are kept compiled, because clients send the same one again and again.
const KEPT: usize = 8;

/// The last templates, most recent first.
static TEMPLATES: Mutex<VecDeque<Arc<ChatTemplate>>> = Mutex::new(VecDeque::new());

/// Compiles a template, or finds it among the last ones.
///
/// # Errors
/// The template does not compile. The error names the line.
pub(crate) fn compiled(source: &str) -> Result<Arc<ChatTemplate>, TemplateError> {
    let lock = || TEMPLATES.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = {
        let mut kept = lock();
        let found = kept.iter().position(|it| it.source() == source);
        found.and_then(|place| kept.remove(place))
    };
    let template = match taken {
        Some(template) => template,
        // Other requests need not wait while it compiles.
        None => Arc::new(ChatTemplate::new(source)?),
    };
    let mut kept = lock();
    kept.push_front(Arc::clone(&template));
    kept.truncate(KEPT);
    Ok(template)
}
