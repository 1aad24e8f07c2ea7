//! `bursar server`: one replica of the scheduler; `server rebuild`: the same one again, under a new number.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use toml::Value;

use super::rebuild;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Arguments of `server`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    bursar server -c /etc/bursar/server.toml\n  \
    bursar server --data /var/lib/bursar --peer-secret-file /etc/bursar/peer-secret\n  \
    bursar server rebuild -c /etc/bursar/server.toml     after damage, or on a wiped or restored disk\n\n\
    An empty data folder waits to be founded (bursar cluster init) or to join (bursar cluster member add). Its \
    addresses are in the file `addresses` there.\n\
    Ends on TERM or Ctrl-C; running jobs are not touched by that. BURSAR_LOG sets what is logged."
)]
pub struct Args {
    /// How it is started.
    #[command(flatten)]
    pub flags: Flags,
    /// Something else than to run.
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// What else can be done with a replica, on its machine.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Keep the data aside, start empty, and join as a new replica in the old one's place
    Rebuild(rebuild::Args),
}

/// How a replica is started.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Settings (TOML); flags go before it
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of everything it keeps; made with mode 0700
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address for clients and agents; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<String>,
    /// Address for the other replicas; port 0 takes a free one
    #[arg(long, value_name = "IP:PORT")]
    pub peer_listen: Option<String>,
    /// A file with the secret that all replicas share (mode 0600)
    #[arg(long, value_name = "FILE")]
    pub peer_secret_file: Option<PathBuf>,
    /// How often a leader shows that it is there
    #[arg(long, value_name = "MS")]
    pub heartbeat_ms: Option<u32>,
    /// The shortest silence before an election
    #[arg(long, value_name = "MS")]
    pub election_min_ms: Option<u32>,
    /// The longest silence before an election
    #[arg(long, value_name = "MS")]
    pub election_max_ms: Option<u32>,
}

impl Flags {
    /// Returns the settings that they and the file make.
    ///
    /// # Errors
    /// When something is missing or not right.
    pub fn settings(&self) -> Result<server::Config, Failure> {
        let mut settings = super::settings::read(self.config.as_deref())?;
        for (key, path) in [("data", &self.data), ("peer_secret_file", &self.peer_secret_file)] {
            super::settings::set_path(&mut settings, key, path.clone())?;
        }
        super::settings::set(&mut settings, "listen", self.listen.clone());
        super::settings::set(&mut settings, "peer_listen", self.peer_listen.clone());
        let times = [
            ("heartbeat_ms", self.heartbeat_ms),
            ("election_min_ms", self.election_min_ms),
            ("election_max_ms", self.election_max_ms),
        ];
        for (key, ms) in times {
            super::settings::set(&mut settings, key, ms.map(i64::from));
        }
        Value::Table(settings).try_into().map_err(|error: toml::de::Error| {
            Failure::new(codes::USAGE, "the replica's settings are not complete or not right")
                .why(error.to_string())
                .fix("bursar server --help; bursar help server")
        })
    }

    /// Returns them as arguments of another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let paths = [
            ("--config", &self.config),
            ("--data", &self.data),
            ("--peer-secret-file", &self.peer_secret_file),
        ];
        for (flag, path) in paths {
            arguments.extend(path.iter().flat_map(|path| [flag.into(), path.into()]));
        }
        for (flag, text) in [("--listen", &self.listen), ("--peer-listen", &self.peer_listen)] {
            arguments.extend(text.iter().flat_map(|text| [flag.into(), text.into()]));
        }
        let times = [
            ("--heartbeat-ms", self.heartbeat_ms),
            ("--election-min-ms", self.election_min_ms),
            ("--election-max-ms", self.election_max_ms),
        ];
        for (flag, ms) in times {
            arguments.extend(ms.iter().flat_map(|ms| [flag.into(), ms.to_string().into()]));
        }
        arguments
    }
}

/// Runs the command; returns when the replica was told to stop, or is rebuilt.
///
/// # Errors
/// When it cannot start, or ends by itself.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    if let Some(Action::Rebuild(rebuild)) = args.action {
        return rebuild::run(shell, rebuild);
    }
    let config = args.flags.settings()?;
    server::run(config)
        .map_err(|error| Failure::new(codes::PROCESS, "the replica stopped").why(error.report()))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::Flags;

    #[test]
    fn settings_that_are_not_known_are_refused() {
        let table: toml::Table = "data = '/d'\npeer_secret_file = '/s'\nlisen = 'x'".parse().expect("TOML");
        let failed =
            toml::Value::Table(table).try_into::<server::Config>().expect_err("unknown key").to_string();
        assert!(failed.contains("lisen"), "{failed}");
    }

    #[test]
    fn flags_are_handed_on_whole() {
        let flags = Flags {
            data: Some("/d".into()),
            listen: Some("127.0.0.1:1".into()),
            heartbeat_ms: Some(50),
            ..Flags::default()
        };
        let expected = ["--data", "/d", "--listen", "127.0.0.1:1", "--heartbeat-ms", "50"];
        assert_eq!(flags.arguments(), expected.map(std::ffi::OsString::from));
    }
}
