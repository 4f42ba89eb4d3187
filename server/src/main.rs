//! The binary `graphmill`, which calls the library's `main`.

fn main() -> std::process::ExitCode {
    graphmill_server::main()
}
