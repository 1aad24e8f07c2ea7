//! The state machine, entry by entry.

mod broken_laws;
mod ends;
mod histories;
mod main_path;
mod nodes;
mod requests;
mod rights;
mod submit;
mod taking;
