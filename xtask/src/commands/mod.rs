//! The commands of `cargo xtask`.

mod bench;
mod check;
mod dev;
mod findings;
mod house;
mod mutants;
mod step;

pub use bench::{BENCHES, Row, bench, table};
pub use check::{check, check_quickly, ci, fix};
pub use dev::dev;
pub use findings::findings;
pub use house::{dependencies, layers, tidy};
pub use mutants::{PLANTED, Planted, mutants};
pub use step::{Report, Step};
