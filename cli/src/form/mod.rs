//! How values are read from people and shown to them: durations, sizes, moments, GPU time, tables, colour.

pub mod gpu_time;
pub mod moment;
pub mod size;
mod style;
pub mod suggest;
pub mod table;
pub mod text;
pub mod weight;

pub use style::Style;

pub use scheduler_core::unit::written as duration;
