//! The setup secret: who founds a control plane has to be able to read a replica's data directory.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use scheduler_core::id::TokenHash;

use crate::auth;

const FILE: &str = "setup-secret";

/// The setup secret of one replica. Its file goes once the control plane is founded; this process knows its hash
/// until it ends, so that a founding that was cut off can be repeated.
#[derive(Debug)]
pub struct Setup {
    file: PathBuf,
    hash: Option<TokenHash>,
}

impl Setup {
    /// Makes the secret of a replica that belongs to no control plane yet, or reads the one it made before. One that
    /// belongs to one makes none; it still has its own if the founding was cut off.
    ///
    /// # Errors
    /// When the file can be neither read nor written.
    pub fn prepare(data: &Path, belongs: bool) -> io::Result<Self> {
        let file = data.join(FILE);
        let text = match fs::read_to_string(&file) {
            // What a power cut left of one that was just made: the empty secret must open nothing.
            Ok(text) if text.trim().is_empty() => {
                fs::remove_file(&file)?;
                return Self::prepare(data, belongs);
            }
            Ok(text) => text,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && belongs => {
                return Ok(Self { file, hash: None });
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => make(&file)?,
            Err(cause) => return Err(cause),
        };
        Ok(Self { hash: Some(auth::hash(text.trim())), file })
    }

    /// Whether a token is the secret.
    #[must_use]
    pub fn is(&self, shown: &TokenHash) -> bool {
        self.hash.as_ref().is_some_and(|hash| auth::is_same(hash, shown))
    }

    /// Removes the file: the control plane is founded.
    pub fn remove(&self) {
        match fs::remove_file(&self.file) {
            Ok(()) => tracing::info!("the setup secret is removed"),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => {
                tracing::warn!(%cause, path = %self.file.display(), "failed to remove the setup secret")
            }
        }
    }
}

fn make(file: &Path) -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let text = blake3::Hash::from_bytes(bytes).to_hex().to_string();
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secret_is_for_the_owner_of_the_directory_and_goes_with_the_founding() {
        let dir = tempfile::tempdir().unwrap();
        let setup = Setup::prepare(dir.path(), false).unwrap();
        let file = dir.path().join(FILE);
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(setup.is(&auth::hash(text.trim())));
        assert!(Setup::prepare(dir.path(), false).unwrap().is(&auth::hash(text.trim())));
        setup.remove();
        assert!(!file.exists());
        assert!(setup.is(&auth::hash(text.trim())), "a founding that was cut off can be repeated");
        assert!(!Setup::prepare(dir.path(), true).unwrap().is(&auth::hash(text.trim())));
    }

    #[test]
    fn empty_file_is_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "\n").unwrap();
        assert!(!Setup::prepare(dir.path(), false).unwrap().is(&auth::hash("")));
        assert!(fs::read_to_string(dir.path().join(FILE)).unwrap().len() > 32);
    }
}
