//! The simulator, as its users meet it.

mod import;
mod shipped;
