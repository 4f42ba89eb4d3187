//! Size limits of a request. Larger requests are refused before they cost memory or time.
//!
//! The schemas of fields document the same limits for users.

/// Maximum number of messages, or items, of a conversation. With their fields, they have about as
/// many values as a request may have.
pub const MAX_MESSAGES: usize = 16_384;

/// Maximum number of tools of a chat. Each is in the prompt and in the constraint on calls.
pub const MAX_TOOLS: usize = 1_024;

/// Maximum number of prompts in a `completions` request, and of texts in a `tokenize` request.
pub const MAX_PROMPTS: usize = 1_024;

/// Maximum number of texts in a request for embeddings, as in OpenAI's API.
pub const MAX_TEXTS: usize = 2_048;

/// Maximum number of documents in a request. In rerank, each is a sequence.
pub const MAX_DOCUMENTS: usize = 4_096;

/// Maximum number of token ids in all prompts of a request: four contexts of a million.
pub const MAX_TOKENS: usize = 1 << 22;

/// Maximum number of characters of a request's chat template. Those of well-known models have at
/// most 20,000.
pub const MAX_TEMPLATE_CHARS: usize = 1 << 16;

/// Maximum number of stop strings. Text is searched for each of them.
pub const MAX_STOPS: usize = 16;

/// Maximum number of characters of a stop string. This much text may be held back.
pub const MAX_STOP_CHARS: usize = 1_024;

/// Maximum number of words that a text must not contain. Each new token is compared with them.
pub const MAX_BAD_WORDS: usize = 256;

/// Maximum number of characters of a word that a text must not contain.
pub const MAX_BAD_WORD_CHARS: usize = 256;

/// Maximum number of tokens that end a text. Each new token is compared with them.
pub const MAX_STOP_TOKENS: usize = 1_024;
