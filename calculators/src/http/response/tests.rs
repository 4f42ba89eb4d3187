//! Chunks of text in, answers out.
