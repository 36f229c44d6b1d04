//! Arguments in, exit code out.

fn main() -> std::process::ExitCode {
    linkvault::cli::main()
}
