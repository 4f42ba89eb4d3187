//! What Python does with a value where minijinja does something else.
//!
//! Chat templates are written for Python's jinja2: `None` cannot be iterated, `"a" + 1` is an error, `1 == 1.0`, a list prints
//! as `['a', True]`, `message.items` is the method before it is the key. The modules here give those meanings to minijinja's
//! values; they know nothing of templates, streams or models.

pub(super) mod access;
pub(super) mod budget;
pub(super) mod call;
pub(super) mod json;
pub(super) mod markup;
pub(super) mod ops;
pub(super) mod str_methods;
pub(super) mod text;
pub(super) mod value;
