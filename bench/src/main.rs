//! `graphmill-bench`: measures models, the engine and the server, alone or beside another server.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
