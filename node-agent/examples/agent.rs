//! An agent as a program of its own, for tests that end it at any moment:
//! `agent DATA SERVERS NAME TOKEN SHIM PROBE LIBRARY`. Shipped it is `bursar agent`.

use node_agent::probe::Command;
use node_agent::{Config, Join};

#[tokio::main]
async fn main() -> Result<(), node_agent::Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [data, servers, name, token, shim, probe, library] = arguments.as_slice() else {
        eprintln!("usage: agent DATA SERVERS NAME TOKEN SHIM PROBE LIBRARY");
        return Ok(());
    };
    let probe = Command { program: probe.into(), arguments: vec![library.into()], environment: Vec::new() };
    let servers = servers.split(',').map(str::to_owned).collect();
    let mut config = Config::new(data, servers, probe, shim);
    config.join = Some(Join { name: name.clone(), token: token.clone() });
    config.allow_root_jobs = true;
    node_agent::run(config, std::future::pending()).await
}
