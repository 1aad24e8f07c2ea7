//! `bursar server`: one replica of the scheduler.

use std::path::PathBuf;

use toml::Value;

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;

/// Arguments of `server`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar server -c /etc/bursar/server.toml\n  \
    bursar server --data /var/lib/bursar --peer-secret-file /etc/bursar/peer-secret\n\n\
    An empty data folder waits to be founded (bursar cluster init). Its addresses are in the file `addresses` there.\n\
    Ends on TERM or Ctrl-C; running jobs are not touched by that. BURSAR_LOG sets what is logged.")]
pub struct Args {
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

/// Runs the command; returns when the replica was told to stop.
///
/// # Errors
/// When it cannot start, or ends by itself.
pub fn run(args: Args) -> Result<Exit, Failure> {
    let mut settings = super::settings::read(args.config.as_deref())?;
    for (key, path) in [("data", args.data), ("peer_secret_file", args.peer_secret_file)] {
        super::settings::set_path(&mut settings, key, path)?;
    }
    super::settings::set(&mut settings, "listen", args.listen);
    super::settings::set(&mut settings, "peer_listen", args.peer_listen);
    let times = [
        ("heartbeat_ms", args.heartbeat_ms),
        ("election_min_ms", args.election_min_ms),
        ("election_max_ms", args.election_max_ms),
    ];
    for (key, ms) in times {
        super::settings::set(&mut settings, key, ms.map(i64::from));
    }
    let config: server::Config = Value::Table(settings).try_into().map_err(|error| {
        Failure::new(codes::USAGE, "the replica's settings are not complete or not right")
            .why(error.to_string())
            .fix("bursar server --help; bursar help server")
    })?;
    server::run(config)
        .map_err(|error| Failure::new(codes::PROCESS, "the replica stopped").why(error.report()))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    #[test]
    fn settings_that_are_not_known_are_refused() {
        let table: toml::Table = "data = '/d'\npeer_secret_file = '/s'\nlisen = 'x'".parse().expect("TOML");
        let failed =
            toml::Value::Table(table).try_into::<server::Config>().expect_err("unknown key").to_string();
        assert!(failed.contains("lisen"), "{failed}");
    }
}
