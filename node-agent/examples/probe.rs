//! The probe as a program of its own: `probe LIBRARY`. Shipped it is a hidden subcommand of `bursar`.

fn main() {
    let library = std::env::args_os().nth(1).unwrap_or_else(|| "libnvidia-ml.so.1".into());
    node_agent::probe::main(library.as_ref())
}
