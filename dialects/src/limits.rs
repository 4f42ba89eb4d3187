//! Size limits of a request: what exceeds them is refused before it costs memory or time.
//!
//! The schemas of fields document the same limits for users.

/// Maximum number of messages, or items, of a conversation: with the fields inside, about as many
/// as a request may have values.
pub const MAX_MESSAGES: usize = 16_384;

/// Maximum number of tools of a chat: each is in the prompt, and is part of what constrains calls.
pub const MAX_TOOLS: usize = 1_024;

/// Maximum number of prompts of one `completions` request, and texts of one for `tokenize`.
pub const MAX_PROMPTS: usize = 1_024;

/// Maximum number of texts of one request for embeddings, as OpenAI has it.
pub const MAX_TEXTS: usize = 2_048;

/// Maximum number of documents of a request: each is a sequence of its own in rerank.
pub const MAX_DOCUMENTS: usize = 4_096;

/// Maximum number of token ids of a request, over all of its prompts: four contexts of a million.
pub const MAX_TOKENS: usize = 1 << 22;

/// Longest chat template of a request. Those of well-known models have 20,000 characters at most.
pub const MAX_TEMPLATE_CHARS: usize = 1 << 16;

/// Maximum number of stop strings: text is searched for each of them.
pub const MAX_STOPS: usize = 16;

/// Longest stop string: so much text may be held back.
pub const MAX_STOP_CHARS: usize = 1_024;

/// Maximum number of words that a text must not have: each new token is compared with them.
pub const MAX_BAD_WORDS: usize = 256;

/// Longest of these words.
pub const MAX_BAD_WORD_CHARS: usize = 256;

/// Maximum number of tokens that end a text: each new one is compared with them.
pub const MAX_STOP_TOKENS: usize = 1_024;
