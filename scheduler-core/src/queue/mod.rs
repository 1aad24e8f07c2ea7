//! What waits, in line, and what GPUs do: plain views for screens.

mod counts;
mod rows;

pub use counts::{Counts, Standing, of_node, of_pool, promised_until, standing};
pub use rows::{Row, rows};
