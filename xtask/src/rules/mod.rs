//! The rules of the house: each takes text or metadata and returns what breaks it.
//!
//! Exceptions are data beside the rule that they soften, each with its reason.

pub mod dependencies;
pub mod docs;
mod files;
mod finding;
pub mod layers;
pub mod metadata;
pub mod paths;
pub mod pure;
pub mod source;
pub mod tidy;
pub mod words;

pub use files::{Text, repository_texts};
pub use finding::Finding;
