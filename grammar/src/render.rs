//! Shows diagnostics: to people on a terminal, to programs as JSON.
