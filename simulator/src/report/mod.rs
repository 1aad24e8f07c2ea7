//! Figures and pictures of runs for people and machines: rows for a terminal, JSON, CSV, one HTML page about a run, and one about two.
//!
//! Nothing here computes a figure: [`measure`](crate::measure) does. What a figure means stands in one list,
//! [`FIGURES`], which the tables, the CSV, the page and its definitions are made from.

mod beside;
mod figures;
mod files;
mod page;
mod table;
pub mod words;

pub use beside::beside;
pub use figures::{FIGURES, Figure, Seeds, Value, figure_of};
pub use files::{csv, json};
pub use page::page;
pub use table::{Table, details, figures, table};
