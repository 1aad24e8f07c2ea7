//! Figures and pictures of runs for people and machines: rows for a terminal, JSON, CSV, and one HTML page.
//!
//! Nothing here computes a figure: [`measure`](crate::measure) does. What a figure means stands in one list,
//! [`FIGURES`], which the tables, the CSV, the page and its definitions are made from.

mod figures;
mod files;
mod page;
mod table;
pub mod words;

pub use figures::{FIGURES, Figure, Seeds, Value};
pub use files::{csv, json};
pub use page::page;
pub use table::{Table, details, figures, table};
