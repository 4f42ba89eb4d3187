//! The programs of this workspace.

use std::path::Path;

/// The bench, which starts the server that was built beside it.
pub(crate) fn bench() -> &'static Path {
    let bench = Path::new(env!("CARGO_BIN_EXE_graphmill-bench"));
    let server = bench.with_file_name("graphmill");
    assert!(
        server.exists(),
        "`{}` is missing: build the whole workspace",
        server.display()
    );
    bench
}
