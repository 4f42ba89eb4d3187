//! The Graphmill server with one node more.

// Naming the crate is what links it, and a linked node registers itself.
use custom_node as _;

fn main() -> std::process::ExitCode {
    graphmill_server::main()
}
