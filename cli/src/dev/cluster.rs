//! A development cluster: its parts, and how it is spoken to.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use proto::v1::ListNodesRequest;

use super::args::Args;
use super::part::Part;
use super::place::Place;
use super::processes::Identity;
use super::state::State;
use crate::client::Client;
use crate::commands::agent::beside_us;
use crate::failure::Failure;
use crate::secret::Token;

/// Returns the name of a replica, from 1.
pub fn replica_name(n: u32) -> String {
    format!("r{n}")
}

/// A development cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Its folder.
    pub place: Place,
    /// What was asked for.
    pub args: Args,
    /// The replicas.
    pub replicas: Vec<Part>,
    /// The agents.
    pub agents: Vec<Part>,
    /// The token of its first principal.
    pub admin: Token,
    /// The library that simulates GPUs.
    pub fake_nvml: PathBuf,
    /// The program that stays with each job.
    pub shim: PathBuf,
    /// Whether it is up.
    pub is_ready: bool,
    /// The supervising process.
    pub supervisor: Identity,
}

impl Cluster {
    /// Makes one whose parts do not run yet.
    ///
    /// # Errors
    /// When its folder cannot be made, or the programs it needs are not there.
    pub fn new(args: Args, place: Place, supervisor: Identity) -> Result<Self, Failure> {
        let fake_nvml = given_or_beside(args.fake_nvml.clone(), "libbursar_fake_nvml.so", "--fake-nvml")?;
        let shim = given_or_beside(args.shim.clone(), "bursar-shim", "--shim")?;
        let (replicas, agents, admin) = (Vec::new(), Vec::new(), Token::make()?);
        Ok(Self { place, args, replicas, agents, admin, fake_nvml, shim, is_ready: false, supervisor })
    }

    /// Returns a replica that listens at `addresses`; any free ones the first time.
    pub fn replica(&self, name: &str, client: &str, peer: &str) -> Part {
        let mut arguments: Vec<OsString> =
            ["server", "--listen", client, "--peer-listen", peer].iter().map(OsString::from).collect();
        // Short times: a leader is replaced within half a second, on a machine that is not overloaded.
        for (name, ms) in
            [("--heartbeat-ms", "50"), ("--election-min-ms", "150"), ("--election-max-ms", "300")]
        {
            arguments.extend([name.into(), ms.into()]);
        }
        arguments.extend(["--data".into(), self.place.replica(name).into()]);
        arguments.extend(["--peer-secret-file".into(), self.place.peer_secret().into()]);
        Part::new(name, arguments, self.place.log(name))
    }

    /// Returns the agent of a node.
    pub fn agent(&self, name: &str, allow_root_jobs: bool) -> Part {
        let mut arguments: Vec<OsString> = ["agent", "--name", name, "--address", "127.0.0.1", "--server"]
            .iter()
            .map(OsString::from)
            .collect();
        arguments.push(self.addresses().join(",").into());
        let paths = [
            ("--data", self.place.node(name)),
            ("--join-token-file", self.place.token(name)),
            ("--nvml", self.fake_nvml.clone()),
            ("--shim", self.shim.clone()),
        ];
        for (flag, path) in paths {
            arguments.extend([flag.into(), path.into()]);
        }
        if allow_root_jobs {
            arguments.push("--allow-root-jobs".into());
        }
        let mut part = Part::new(name, arguments, self.place.log(name));
        part.environment.push((super::gpus::VARIABLE.into(), self.place.gpus(name).into()));
        part
    }

    /// Returns the replicas' addresses for clients.
    pub fn addresses(&self) -> Vec<String> {
        self.replicas.iter().filter_map(|replica| replica.address.clone()).collect()
    }

    /// Returns a client of the first principal.
    ///
    /// # Errors
    /// When an address is none.
    pub fn client(&self, patience: Duration) -> Result<Client, Failure> {
        Client::new(&self.addresses(), Some(self.admin.text().into()), patience, false)
    }

    /// Returns which replica leads.
    pub async fn leader(&self) -> Option<usize> {
        for (n, replica) in self.replicas.iter().enumerate() {
            let Some(address) = replica.address.clone().filter(|_| replica.process().is_some()) else {
                continue;
            };
            let Ok(client) = Client::new(&[address], None, Duration::from_millis(300), false) else {
                continue;
            };
            if client.hello().await.is_ok_and(|hello| hello.role == "leader") {
                return Some(n);
            }
        }
        None
    }

    /// Returns how many nodes are ready with all their GPUs.
    ///
    /// # Errors
    /// When no replica answers.
    pub async fn nodes_ready(&self, client: &Client) -> Result<usize, Failure> {
        let nodes = client.list_nodes(ListNodesRequest { read: None }).await?.nodes;
        Ok(nodes.iter().filter(|node| node.state == "ready" && node.gpus == self.args.gpus).count())
    }

    /// Writes down what runs.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_state(&self) -> Result<(), Failure> {
        let state = State {
            schema: "dev/v1".into(),
            folder: self.place.folder().display().to_string(),
            ready: self.is_ready,
            keep: self.args.keep,
            supervisor: self.supervisor,
            replicas: self.replicas.iter().map(Part::state).collect(),
            agents: self.agents.iter().map(Part::state).collect(),
        };
        state.write(&self.place.state())
    }
}

fn given_or_beside(given: Option<PathBuf>, name: &str, flag: &str) -> Result<PathBuf, Failure> {
    let path = match given {
        Some(path) => std::path::absolute(&path).unwrap_or(path),
        None => beside_us(name)?,
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::new(crate::codes::DEV_FAILED, format!("{} is not there", path.display()))
        .fix(format!("{flag} PATH; in the source tree `cargo xtask dev` builds everything and starts it")))
}
