//! Speculation on a model whose logits are a function of the text: what is generated does not
//! depend on what was drafted.

mod draft_model;
mod text;
