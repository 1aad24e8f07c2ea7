//! `bursar agent`: the agent of one node.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, error, io};

use node_agent::probe;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use toml::Value;

use super::settings;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;

/// Arguments of `agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar agent -c /etc/bursar/agent.toml\n  \
    bursar agent --data /var/lib/bursar-agent --server 127.0.0.1:7400,127.0.0.1:7410 \\\n    \
    --name node-07 --join-token-file node-07.token\n\n\
    The name and the token are for the first start: `bursar node token node-07` makes one.\n\
    Ends on TERM or Ctrl-C; jobs run on, and the next start finds them. BURSAR_LOG sets what is logged.")]
pub struct Args {
    /// Settings (TOML); flags go before it
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of everything it keeps; made with mode 0711: jobs reach their own part of it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The node's name, for the first start
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A file with the one-time token, for the first start
    #[arg(long, value_name = "FILE")]
    join_token_file: Option<PathBuf>,
    /// The NVML library [default: the driver's]
    #[arg(long, value_name = "PATH")]
    nvml: Option<PathBuf>,
    /// The program that stays with each job [default: bursar-shim beside this program]
    #[arg(long, value_name = "PATH")]
    shim: Option<PathBuf>,
    /// The host by which other nodes reach the jobs here [default: the machine's name]
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// Let jobs run as root
    #[arg(long)]
    allow_root_jobs: bool,
}

/// Settings of an agent: flags, file, defaults.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    data: PathBuf,
    servers: Vec<String>,
    name: Option<String>,
    join_token_file: Option<PathBuf>,
    #[serde(default = "driver")]
    nvml: PathBuf,
    shim: Option<PathBuf>,
    address: Option<String>,
    #[serde(default)]
    allow_root_jobs: bool,
    probe_deadline: Option<String>,
    keep_ended: Option<String>,
    unkillable_after: Option<String>,
}

fn driver() -> PathBuf {
    "libnvidia-ml.so.1".into()
}

/// Runs the command; returns when the agent was told to stop.
///
/// # Errors
/// When it cannot start, or ends by itself.
pub fn run(args: Args, servers: Option<String>) -> Result<Exit, Failure> {
    let config = config(args, servers)?;
    log();
    let failed = |what: &str, why: String| Failure::new(codes::PROCESS, what).why(why);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("agent")
        .build()
        .map_err(|error| failed("the agent cannot start", error.to_string()))?;
    let ended = runtime.block_on(async {
        let told = until_told().map_err(|error| failed("the agent cannot start", error.to_string()))?;
        node_agent::run(config, told).await.map_err(|error| failed("the agent stopped", chain(&error)))
    });
    runtime.shutdown_background();
    ended.map(|()| Exit::Done)
}

fn config(args: Args, servers: Option<String>) -> Result<node_agent::Config, Failure> {
    let mut table = settings::read(args.config.as_deref())?;
    let paths = [
        ("data", args.data),
        ("join_token_file", args.join_token_file),
        ("nvml", args.nvml),
        ("shim", args.shim),
    ];
    for (key, path) in paths {
        settings::set_path(&mut table, key, path)?;
    }
    settings::set(&mut table, "name", args.name);
    settings::set(&mut table, "address", args.address);
    settings::set(&mut table, "allow_root_jobs", args.allow_root_jobs.then_some(true));
    let servers: Option<Vec<Value>> =
        servers.map(|list| list.split(',').map(|one| Value::from(one.trim())).collect());
    settings::set(&mut table, "servers", servers);
    let s: Settings = Value::Table(table).try_into().map_err(|error: toml::de::Error| {
        Failure::new(codes::USAGE, "the agent's settings are not complete or not right")
            .why(error.to_string())
            .fix("bursar agent --help")
    })?;
    let shim = s.shim.map_or_else(|| beside_us("bursar-shim"), Ok)?;
    let mut config = node_agent::Config::new(&s.data, s.servers, probe_command(&s.nvml)?, shim);
    config.allow_root_jobs = s.allow_root_jobs;
    config.address = s.address;
    config.join = join(s.name, s.join_token_file.as_deref(), &s.data)?;
    if let Some(time) = time("probe_deadline", s.probe_deadline)? {
        config.probe_deadline = time;
    }
    if let Some(time) = time("keep_ended", s.keep_ended)? {
        config.keep_ended = time;
    }
    if let Some(time) = time("unkillable_after", s.unkillable_after)? {
        config.unkillable_after = time;
    }
    Ok(config)
}

fn time(key: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let parsed = text.map(|text| duration::parse(&text)).transpose();
    let span = parsed.map_err(|what| Failure::new(codes::DURATION, format!("{key}: {what}")))?;
    Ok(span.map(|span| Duration::from_millis(span.as_millis())))
}

/// Returns how to join. Without a token file the data folder has to belong to a node already; the agent says so.
fn join(
    name: Option<String>,
    token: Option<&Path>,
    data: &Path,
) -> Result<Option<node_agent::Join>, Failure> {
    let (name, file) = match (name, token) {
        (Some(name), Some(file)) => (name, file),
        (None, Some(_)) => {
            return Err(Failure::new(codes::USAGE, "a join token is given without the node's name")
                .fix("--name NAME"));
        }
        (_, None) => return Ok(None),
    };
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(node_agent::Join { name, token: text.trim().into() })),
        // A token that was used may be gone: it is for the first start only.
        Err(error) if error.kind() == io::ErrorKind::NotFound && data.exists() => Ok(None),
        Err(error) => {
            Err(Failure::new(codes::FILE, format!("cannot read {}", file.display())).why(error.to_string()))
        }
    }
}

/// Returns the probe: this program again, as a process of its own that may hang in the driver.
fn probe_command(nvml: &Path) -> Result<probe::Command, Failure> {
    let arguments: Vec<OsString> = vec!["agent-probe".into(), nvml.into()];
    Ok(probe::Command { program: us()?.into(), arguments, environment: Vec::new() })
}

fn us() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|error| {
        Failure::new(codes::PROCESS, "cannot tell where this program is").why(error.to_string())
    })
}

/// Returns a program that was installed beside this one.
///
/// # Errors
/// When it cannot be told where this program is.
pub fn beside_us(name: &str) -> Result<PathBuf, Failure> {
    Ok(us()?.with_file_name(name))
}

fn until_told() -> io::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => (),
            _ = int.recv() => (),
        }
    })
}

fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("BURSAR_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,h2=warn,hyper=warn,tonic=warn"));
    // An error means that somebody else's lines are in place.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
}

/// Returns an error with all that caused it.
fn chain(error: &dyn error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(&format!(": {source}"));
        next = source.source();
    }
    text
}
