//! The programs that a lab starts.

use std::path::PathBuf;

/// Paths of the programs, built by cargo in the profile that the caller runs in.
#[derive(Debug, Clone)]
pub struct Parts {
    /// `bursar`.
    pub bursar: PathBuf,
    /// `bursar-shim`.
    pub shim: PathBuf,
    /// The fake NVML library.
    pub nvml: PathBuf,
}

impl Parts {
    /// Builds what is stale.
    ///
    /// # Panics
    /// With cargo's own messages when a build fails.
    pub fn built() -> Self {
        Self {
            bursar: xtask::built::bursar().to_owned(),
            shim: xtask::built::shim().to_owned(),
            nvml: xtask::built::fake_nvml().to_owned(),
        }
    }
}
