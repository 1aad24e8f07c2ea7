//! A copy of the library for each test, with a state file beside it: two copies of a file are two libraries.

use std::path::{Path, PathBuf};

use bursar_fake_nvml::State;
use nvml_wrapper::Nvml;
use tempfile::TempDir;

pub(crate) struct Fake {
    _directory: TempDir,
    library: PathBuf,
    state: PathBuf,
}

impl Fake {
    pub(crate) fn new(state: &State) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let library = directory.path().join("libnvidia-ml.so.1");
        std::fs::copy(built(), &library).expect("a copy of the library");
        let fake =
            Self { state: directory.path().join("libnvidia-ml.so.1.json"), _directory: directory, library };
        fake.set(state);
        fake
    }

    pub(crate) fn set(&self, state: &State) {
        bursar_fake_nvml::write(&self.state, state).expect("the state is written");
    }

    pub(crate) fn open(&self) -> Nvml {
        Nvml::builder().lib_path(self.library.as_os_str()).init().expect("the library initialises")
    }

    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    pub(crate) fn state_file(&self) -> &Path {
        &self.state
    }
}

/// Finds the library that cargo built with this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let deps = test.parent().expect("it lies in a directory");
    let name = "libbursar_fake_nvml.so";
    let found = [deps.join(name), deps.with_file_name(name)].into_iter().find(|path| path.exists());
    found.expect("cargo builds the library with its tests")
}
