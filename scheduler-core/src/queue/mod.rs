//! What waits, in line, and what GPUs do: plain views for screens.

mod counts;
mod folded;
mod rows;

pub use counts::{Counts, Standing, is_with_stray, of_node, of_pool, promised_until, standing};
pub use folded::folded;
pub use rows::{Row, rows};
