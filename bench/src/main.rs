//! `graphmill-bench`: measures models, the engine and the server, alone or beside another server.

fn main() -> std::process::ExitCode {
    graphmill_bench::cli::main()
}
