//! The state machine, entry by entry.

mod arrays;
mod before;
mod bounds;
mod broken_laws;
mod end_rows;
mod ends;
mod gangs;
mod histories;
mod job_words;
mod main_path;
mod node_words;
mod nodes;
mod progress;
mod requests;
mod rights;
mod submit;
mod taking;
mod time;
