//! Contexts: which control plane is spoken to, and as whom. One file, no merging; environment and flags go before it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use serde::{Deserialize, Serialize};

use crate::codes;
use crate::failure::Failure;

/// The file `config.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The selected context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// All contexts by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// A control plane and who speaks to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Addresses of its replicas.
    pub servers: Vec<String>,
    /// Addresses that replicas have named since: they come and go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<String>,
    /// The token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A file that holds the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The budget of submissions that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
}

impl Context {
    /// Returns all addresses that are known, those that were learned behind the others.
    pub fn addresses(&self) -> Vec<String> {
        let learned = self.learned.iter().filter(|address| !self.servers.contains(address));
        self.servers.iter().chain(learned).cloned().collect()
    }

    /// Takes over where the replicas are now; returns whether that is news.
    pub fn learn(&mut self, addresses: &[String]) -> bool {
        let fresh: Vec<String> =
            addresses.iter().filter(|address| !self.servers.contains(address)).cloned().collect();
        let is_news = fresh != self.learned;
        self.learned = fresh;
        is_news
    }
}

/// Returns the folder of the configuration.
pub fn folder() -> PathBuf {
    let base = env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let home = || env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    base.unwrap_or_else(|| home().join(".config")).join("bursar")
}

/// Returns the path of the configuration.
pub fn path() -> PathBuf {
    folder().join("config.toml")
}

/// Reads the configuration; an absent file is an empty one.
///
/// # Errors
/// When the file cannot be read or is not what it should be.
pub fn load() -> Result<Config, Failure> {
    let path = path();
    let shown = path.display();
    match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| {
            Failure::new(codes::BAD_FILE, format!("{shown} is not a configuration"))
                .why(error.to_string())
                .fix("mend the file, or delete it and make contexts anew")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(Failure::new(codes::FILE, format!("cannot read {shown}")).why(error.to_string())),
    }
}

/// Writes the configuration, readable for its owner only, old or new and never half of it.
///
/// # Errors
/// When it cannot be written.
pub fn save(config: &Config) -> Result<(), Failure> {
    let path = path();
    let text = toml::to_string(config)
        .map_err(|error| Failure::new(codes::FILE, "cannot write contexts").why(error.to_string()))?;
    write_private(&path, text.as_bytes()).map_err(|error| {
        Failure::new(codes::FILE, format!("cannot write {}", path.display())).why(error.to_string())
    })
}

/// Replaces a file, mode 0600, and makes its folder, mode 0700, if it is not there.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".new.{}", std::process::id()));
    let new = PathBuf::from(new);
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Config, Context, write_private};

    #[test]
    fn contexts_come_back_as_they_were_written() {
        let context = Context {
            servers: vec!["127.0.0.1:7700".into()],
            learned: vec!["127.0.0.1:7710".into()],
            token: Some("ab".into()),
            token_file: None,
            budget: Some("a/b".into()),
        };
        let config = Config { context: Some("dev".into()), contexts: [("dev".into(), context)].into() };
        let text = toml::to_string(&config).expect("contexts are plain tables");
        assert_eq!(toml::from_str::<Config>(&text).expect("our own text"), config);
        assert!(toml::from_str::<Config>("contxt = 'a'").is_err());
    }

    #[test]
    fn addresses_are_learned_beside_those_that_were_given() {
        let mut context = Context { servers: vec!["a:1".into()], ..Context::default() };
        assert!(!context.learn(&["a:1".into()]));
        assert!(context.learn(&["a:1".into(), "b:1".into()]));
        assert_eq!(context.addresses(), ["a:1", "b:1"]);
        assert!(context.learn(&["c:1".into()]));
        assert_eq!(context.addresses(), ["a:1", "c:1"], "what was given stays");
    }

    #[test]
    fn tokens_are_readable_for_their_owner_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("bursar/config.toml");
        write_private(&path, b"a").expect("first");
        write_private(&path, b"b").expect("again");
        let mode = path.metadata().expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read(&path).expect("written"), b"b");
    }
}
