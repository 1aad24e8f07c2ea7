//! The simulator, as its users meet it.

mod beside;
mod browser;
mod import;
mod made;
mod measured;
mod memory;
mod page;
mod peers;
mod shipped;
mod tables;
mod toy;
