//! The program `bursar`; everything is in the library.

use std::process::ExitCode;

/// State is copied in small pieces as it changes: docs/adr/0029.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
