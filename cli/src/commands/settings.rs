//! Settings of long-running processes: a TOML file, and flags that go before it.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::codes;
use crate::failure::Failure;

/// Reads a settings file; none is an empty one.
///
/// # Errors
/// When it cannot be read, or is not TOML.
pub fn read(path: Option<&Path>) -> Result<Table, Failure> {
    let Some(path) = path else { return Ok(Table::new()) };
    let text = crate::shell::read_text(path)?;
    text.parse::<Table>().map_err(|error| {
        Failure::new(codes::BAD_FILE, format!("{} is not TOML", path.display())).why(error.to_string())
    })
}

/// Sets a key that a flag gave.
pub fn set(settings: &mut Table, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        settings.insert(key.into(), value.into());
    }
}

/// Sets a key to a path that a flag gave.
///
/// # Errors
/// When the path is not valid text, which TOML has to be.
pub fn set_path(settings: &mut Table, key: &str, path: Option<PathBuf>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = path.into_os_string().into_string().map_err(|path| {
        Failure::new(codes::USAGE, format!("{} is not valid text", path.display())).fix("use another path")
    })?;
    set(settings, key, Some(text));
    Ok(())
}
