//! The limits on rendering one template.
//!
//! minijinja counts the instructions of a template. The work of one instruction on a large value is
//! counted here, in bytes made and items visited. Some functions of this folder make values and
//! cannot fail: they only spend, and their callers check the budget. Rendering stays on one thread,
//! and so does its budget.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use graphmill_engine::CancelToken;
use minijinja::Error;
use minijinja::value::{DynObject, Value};

use super::value::{Type, error, items, pairs};
use crate::text::template_limits::check_level;

/// Bytes that an item of a list takes.
const ITEM: usize = size_of::<Value>();
/// Number of bytes of text that can be searched in the time in which one is made.
const SEARCHED: usize = 16;

/// Maximum depth of filters that apply other filters, as `map` does.
const MAX_FILTERS: usize = 16;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static FILTERS: Cell<usize> = const { Cell::new(0) };
    static CANCEL: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// The reason why a template was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateStop {
    #[error("it makes too much text, or too many items")]
    Spent,
    #[error("the request was cancelled")]
    Cancelled,
}

/// The budget of the current rendering in this thread, until it is dropped.
pub(crate) struct Budget {
    /// Makes the type stay on the thread whose budget it is.
    here: PhantomData<*const ()>,
}

impl Budget {
    /// Sets a budget of this many bytes, for a rendering that stops when the token is cancelled.
    pub(crate) fn new(bytes: usize, cancel: CancelToken) -> Self {
        LEFT.set(bytes);
        CANCEL.set(Some(cancel));
        Self { here: PhantomData }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        LEFT.set(usize::MAX);
        CANCEL.set(None);
    }
}

/// Counts bytes that were made, or are about to be.
pub(super) fn spend(bytes: usize) {
    // Work outside of a rendering has no limit.
    if LEFT.get() != usize::MAX {
        LEFT.set(LEFT.get().saturating_sub(bytes));
    }
}

/// Counts items of a list.
pub(super) fn spend_items(count: usize) {
    spend(count.saturating_mul(ITEM));
}

/// Counts a text that is searched.
pub(super) fn search(value: &Value) {
    spend(value.as_str().map_or(1, |text| 1 + text.len() / SEARCHED));
}

/// Counts paths with this many bytes, which are followed from each item of a list.
pub(super) fn spend_paths(bytes: usize, list: &Value) {
    let items = list.as_object().and_then(|_| list.len()).unwrap_or(0);
    spend((bytes / SEARCHED).saturating_mul(items));
}

/// Counts everything in a value: the work to print it, compare it or write it as JSON.
pub(super) fn weigh(value: &Value) -> Result<(), Error> {
    weigh_level(value, 0)
}

fn weigh_level(value: &Value, level: usize) -> Result<(), Error> {
    take(1 + value.as_str().map_or(0, str::len))?;
    let inside = |value: &Value| weigh_level(value, level + 1);
    match Type::from_value(value) {
        Type::List | Type::Tuple | Type::Iterable => {
            check_level(level)?;
            items(value).iter().try_for_each(inside)
        }
        Type::Dict => {
            check_level(level)?;
            let mut entries = pairs(value).into_iter();
            entries.try_for_each(|(key, value)| inside(&key).and(inside(&value)))
        }
        Type::Object => {
            check_level(level)?;
            attributes(value).iter().try_for_each(inside)
        }
        _ => Ok(()),
    }
}

/// Returns the values of a namespace, which are printed with it.
fn attributes(object: &Value) -> Vec<Value> {
    let entries = object.as_object().and_then(DynObject::try_iter_pairs);
    let entries = entries.into_iter().flatten();
    entries.map(|(_, value)| value).collect()
}

/// Returns true if the budget is used up. Whatever is made then is dropped.
pub(super) fn is_spent() -> bool {
    LEFT.get() == 0
}

/// Runs work within the budget of the rendering. It fails if it takes too much, whatever its
/// result.
pub(super) fn bounded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    check()?;
    let outcome = work()?;
    check()?;
    Ok(outcome)
}

/// Runs a filter, which may apply others, as [`bounded`] does.
pub(super) fn filtered<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    if FILTERS.get() == MAX_FILTERS {
        return Err(error(format!(
            "filters apply other filters more than {MAX_FILTERS} levels deep"
        )));
    }
    FILTERS.set(FILTERS.get() + 1);
    let outcome = bounded(work);
    FILTERS.set(FILTERS.get() - 1);
    outcome
}

/// Fails if the rendering has used up its budget or was cancelled.
pub(super) fn check() -> Result<(), Error> {
    let cancelled =
        |token: &Option<CancelToken>| token.as_ref().is_some_and(CancelToken::is_cancelled);
    let why = if is_spent() {
        TemplateStop::Spent
    } else if CANCEL.with_borrow(cancelled) {
        TemplateStop::Cancelled
    } else {
        return Ok(());
    };
    Err(error(why.to_string()).with_source(why))
}

/// Counts bytes before they are made, and fails if they exceed the budget.
pub(super) fn take(bytes: usize) -> Result<(), Error> {
    spend(bytes);
    check()
}
