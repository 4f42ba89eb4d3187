//! How much of each a request may have: what is refused before it costs memory or time.
//!
//! The table of fields says the same to users.

/// Most messages, or items, of a conversation: with the fields inside, about as many as a request may have values.
pub(super) const MAX_MESSAGES: usize = 16_384;

/// Most tools of a chat: each is in the prompt, and is part of what constrains calls.
pub(super) const MAX_TOOLS: usize = 1_024;

/// Most prompts of one `completions` request, and texts of one for `tokenize`.
pub(super) const MAX_PROMPTS: usize = 1_024;

/// Most texts of one request for embeddings, as OpenAI has it.
pub(super) const MAX_TEXTS: usize = 2_048;

/// Most documents of a request: each is a sequence of its own in rerank.
pub(super) const MAX_DOCUMENTS: usize = 4_096;

/// Most token ids of a request, over all of its prompts: four contexts of a million.
pub(super) const MAX_TOKENS: usize = 1 << 22;

/// Most stop strings: text is searched for each of them.
pub(super) const MAX_STOPS: usize = 16;

/// Longest stop string: so much text may be held back.
pub(super) const MAX_STOP_CHARS: usize = 1_024;

/// Most tokens that end a text: each new one is compared with them.
pub(super) const MAX_STOP_TOKENS: usize = 1_024;

/// Most biases: all are added at each step.
pub(super) const MAX_BIASES: usize = 4_096;
