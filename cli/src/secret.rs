//! Tokens: made here, shown once or written to a file of the owner's, and known to the control plane by their hash.

use std::path::Path;

use crate::client::random;
use crate::codes;
use crate::config;
use crate::failure::Failure;

/// A token of 256 random bits, as text.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Makes one.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn make() -> Result<Self, Failure> {
        let bytes = random::<32>()?;
        Ok(Self(blake3::Hash::from_bytes(bytes).to_hex().to_string()))
    }

    /// Takes one that was made before.
    pub fn of(text: String) -> Self {
        Self(text)
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the hash of the text, by which the control plane knows it.
    pub fn hash(&self) -> Vec<u8> {
        blake3::hash(self.0.as_bytes()).as_bytes().to_vec()
    }

    /// Writes it to a file of mode 0600.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        config::write_private(&path, format!("{}\n", self.0).as_bytes()).map_err(|error| {
            Failure::new(codes::FILE, format!("cannot write {}", path.display())).why(error.to_string())
        })
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}
