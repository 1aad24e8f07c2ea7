//! The JSON Schema of submission files, for editors.

/// What `bursar submit --schema` prints.
pub const SCHEMA: &str = include_str!("schema.json");
