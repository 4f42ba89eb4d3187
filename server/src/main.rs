//! The `graphmill` binary.

fn main() -> std::process::ExitCode {
    graphmill_server::main()
}
