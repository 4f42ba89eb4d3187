//! What is formatted stays as it is and means the same.
#![no_main]

use graphmill_grammar::{SourceMap, fmt, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut sources = SourceMap::new();
    let Ok(formatted) = fmt::format(&mut sources, "fuzz.pbtxt", bytes) else {
        return;
    };
    let again = fmt::format(&mut sources, "again.pbtxt", formatted.as_str());
    assert_eq!(again.as_ref(), Ok(&formatted));
    let mut values = |text: String| {
        let file = sources.add("fuzz.pbtxt", text);
        fmt::print(&parse(&sources, file).0.root)
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(values(text), values(formatted));
});
