//! The lab itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};
use proto::v1::JobRequest;
use serde_json::Value;
use tokio::runtime::{Handle, Runtime};

use super::agent::Agent;
use super::gate::Gate;
use super::parts::Parts;
use super::plan::{Plan, Timing, own_account};
use super::proc::own_processes;
use super::process::kill;
use super::replica::Replica;
use super::said::Said;
use super::wait::{try_until, until};
use crate::client::Client;
use crate::work::Work;

/// The name of the first principal.
pub const ADMIN: &str = "ops";

/// A control plane with its nodes. Dropping it ends every process that it started, and removes its folder.
#[derive(Debug)]
pub struct Lab {
    /// The programs.
    pub parts: Parts,
    /// The replicas, in the order of their ids.
    pub replicas: Vec<Replica>,
    /// The nodes.
    pub agents: Vec<Agent>,
    plan: Plan,
    folder: PathBuf,
    runtime: Runtime,
    names: AtomicU32,
}

impl Lab {
    /// Starts replicas, founds the control plane, makes budgets and principals, and lets the nodes join.
    ///
    /// # Errors
    /// When a program or a file cannot be had.
    ///
    /// # Panics
    /// When a step does not come about.
    pub fn start(plan: Plan) -> Result<Self> {
        let mut lab = Self::found(plan)?;
        lab.add_principals()?;
        lab.apply_tree("the first one")?;
        for (n, gpus) in (1..).zip(lab.plan.nodes.clone()) {
            lab.add_node(n, gpus)?;
        }
        lab.wait_nodes();
        Ok(lab)
    }

    /// Starts replicas and founds the control plane; nothing more is in it.
    ///
    /// # Errors
    /// When a program or a file cannot be had.
    ///
    /// # Panics
    /// When a step does not come about.
    pub fn found(plan: Plan) -> Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("bursar-lab-").tempdir().context("no folder for a lab")?;
        let folder = folder.keep();
        Self::found_in(plan, &folder)
    }

    /// As [`Lab::found`], in a folder of the caller's.
    ///
    /// # Errors
    /// When a program or a file cannot be had.
    ///
    /// # Panics
    /// When a step does not come about.
    pub fn found_in(plan: Plan, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("home")).context("failed to make the lab's folder")?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("failed to start the lab's runtime")?;
        let mut lab = Self {
            parts: Parts::built(),
            replicas: Vec::new(),
            agents: Vec::new(),
            plan,
            folder: folder.to_owned(),
            runtime,
            names: AtomicU32::new(1),
        };
        lab.start_replicas()?;
        lab.init()?;
        Ok(lab)
    }

    fn start_replicas(&mut self) -> Result<()> {
        let secret = self.folder.join("peer-secret");
        write_private(&secret, &random_hex::<32>()?).context("failed to write the peer secret")?;
        let mut elsewhere = self.plan.data.clone().into_iter();
        for id in 1..=u64::try_from(self.plan.replicas).context("too many replicas")? {
            let data = elsewhere.next().unwrap_or_else(|| self.folder.join(format!("r{id}")));
            let mut replica = Replica::prepare(&self.folder, id, data, &secret, &self.plan)?;
            replica.start(&self.parts)?;
            self.replicas.push(replica);
        }
        Ok(())
    }

    /// Starts one more replica, which waits for somebody to let it join; returns its place among the replicas.
    ///
    /// # Errors
    /// When its files cannot be written or it cannot be started.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn add_replica(&mut self) -> Result<usize> {
        let secret = self.folder.join("peer-secret");
        let name = self.fresh("joining");
        let number =
            name.rsplit('-').next().and_then(|n| n.parse::<u64>().ok()).context("names end in a number")?;
        // Founders have the numbers below.
        let id = 100 + number;
        let data = self.folder.join(format!("r{id}"));
        let mut replica = Replica::prepare(&self.folder, id, data, &secret, &self.plan)?;
        replica.start(&self.parts)?;
        self.replicas.push(replica);
        Ok(self.replicas.len() - 1)
    }

    fn init(&self) -> Result<()> {
        let setup = self.replicas[0].data.join("setup-secret");
        let account = own_account();
        let mut args: Vec<String> =
            ["cluster", "init", "--root", "lab", "--admin", ADMIN, "--account", &account]
                .map(String::from)
                .to_vec();
        args.extend(["--allow-simulated".into(), "--setup-secret-file".into(), setup.display().to_string()]);
        for replica in &self.replicas {
            args.extend(["--founder".into(), format!("{},{}", replica.client, replica.peer)]);
        }
        args.extend(self.plan.settings.iter().flat_map(|setting| ["--set".into(), setting.clone()]));
        // A replica that did not answer in time is asked again, as the message says.
        let said = until("every replica answers its founder", || {
            let said = self.run(Command::new(&self.parts.bursar).args(&args), ADMIN);
            let is_early = said.as_ref().is_ok_and(|said| said.err.contains("founding can be tried again"));
            (!is_early).then_some(said)
        })?;
        ensure!(said.code == 0, "founding failed: {said:#?}\n{}", self.logs());
        // A context shows its token to the replicas that it knows only; a lab asks others too.
        write_private(&self.token_file(ADMIN), &self.admin_token()?)
            .context("failed to keep the admin's token")
    }

    fn add_principals(&self) -> Result<()> {
        let account = own_account();
        for name in &self.plan.principals {
            let file = self.token_file(name);
            let file = file.to_str().context("the lab's folder has a name that is no text")?;
            self.bursar(&["principal", "add", name, "--account", &account, "--token-file", file]).ok();
        }
        Ok(())
    }

    /// Makes the plan's tree the present one.
    ///
    /// # Errors
    /// When its file cannot be written.
    ///
    /// # Panics
    /// When it is refused.
    pub fn apply_tree(&self, reason: &str) -> Result<()> {
        let file = self.write("budgets.yaml", &self.plan.tree)?;
        self.bursar(&["budget", "apply", "-f", &file, "--reason", reason, "--yes"]).ok();
        Ok(())
    }

    /// Adds node number `n` with `gpus` simulated GPUs and starts its agent.
    ///
    /// # Errors
    /// When its files cannot be written or its agent cannot be started.
    ///
    /// # Panics
    /// When it is refused.
    pub fn add_node(&mut self, n: u32, gpus: u32) -> Result<()> {
        let mut agent = Agent::prepare(&self.folder, n, gpus, &self.servers())?;
        let file = agent.token.display().to_string();
        self.bursar(&["node", "token", &agent.name, "--file", &file]).ok();
        agent.start(&self.parts)?;
        self.agents.push(agent);
        Ok(())
    }

    /// Waits until every node of the plan takes work.
    ///
    /// # Panics
    /// When one does not.
    pub fn wait_nodes(&self) {
        let wanted = self.agents.len();
        let ready = || {
            let said = self.bursar(&["node", "list", "-o", "json"]);
            let list: Value = serde_json::from_str(&said.out).ok()?;
            let nodes = list["nodes"].as_array()?.iter().filter(|node| node["state"] == "ready").count();
            (nodes == wanted).then_some(())
        };
        if try_until(super::DEADLINE, ready).is_none() {
            panic!("not all nodes are ready: {:#?}\n{}", self.bursar(&["node", "list"]), self.logs());
        }
    }

    /// Brings everything back that a test took down, ends every job, and waits until nothing is left of them.
    ///
    /// # Errors
    /// When something cannot be started.
    ///
    /// # Panics
    /// When the cluster does not come to rest.
    pub fn settle(&mut self) -> Result<()> {
        let parts = self.parts.clone();
        for replica in self.replicas.iter_mut().filter(|replica| replica.process.is_none()) {
            replica.start(&parts)?;
        }
        for agent in self.agents.iter_mut().filter(|agent| agent.process.is_none()) {
            agent.start(&parts)?;
        }
        self.wait_nodes();
        let admin = self.client(ADMIN)?;
        let mut asked = BTreeSet::new();
        until("no job is live and no GPU occupied", || {
            // What was on its way when the law ended may come later than the others.
            let live = self.block_on(admin.live_jobs()).ok()?;
            let is_empty = live.is_empty();
            if live.iter().any(|job| !asked.contains(job)) {
                self.block_on(admin.cancel_all("the test is over")).ok()?;
                asked.extend(live);
            }
            let view = self.block_on(admin.status()).ok()?;
            let is_idle = view.pools.iter().all(|pool| pool.idle == pool.gpus);
            (is_empty && is_idle && view.safe_mode.is_none()).then_some(())
        });
        Ok(())
    }

    /// Runs `bursar` as the admin.
    pub fn bursar(&self, args: &[&str]) -> Said {
        self.bursar_as(ADMIN, args)
    }

    /// Runs `bursar` as a principal.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn bursar_as(&self, name: &str, args: &[&str]) -> Said {
        let mut command = self.command(name);
        command.args(args);
        self.run(&mut command, name).expect("the program was built")
    }

    /// Returns the command `bursar`, ready to run as a principal.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.parts.bursar);
        command.args(["--server", &self.servers()]);
        command.env("BURSAR_TOKEN_FILE", self.token_file(name));
        command
    }

    /// Runs a command with nothing of this process's own contexts.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, command: &mut Command, name: &str) -> Result<Said> {
        command.env("XDG_CONFIG_HOME", self.folder.join("home").join(name)).env("NO_COLOR", "1");
        for variable in ["BURSAR_TOKEN", "BURSAR_BUDGET", "BURSAR_CONTEXT", "BURSAR_OUTPUT", "BURSAR_SERVER"]
        {
            command.env_remove(variable);
        }
        command.current_dir(&self.folder).stdin(Stdio::null());
        let line = format!("{command:?}");
        let ended = command.output().with_context(|| format!("failed to run {line}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let code = ended.status.code().unwrap_or(-1);
        Ok(Said { line, code, out: text(ended.stdout), err: text(ended.stderr) })
    }

    /// Returns a client of a principal, for many calls from this process.
    ///
    /// # Errors
    /// When its token cannot be read.
    pub fn client(&self, name: &str) -> Result<Client> {
        let token =
            if name == ADMIN { self.admin_token()? } else { fs::read_to_string(self.token_file(name))? };
        let servers: Vec<String> = self.replicas.iter().map(|replica| replica.client.clone()).collect();
        let _guard = self.runtime.enter();
        Client::new(&servers, token.trim())
    }

    fn admin_token(&self) -> Result<String> {
        let file = self.folder.join("home").join(ADMIN).join("bursar/config.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let token = text.lines().find_map(|line| line.strip_prefix("token = "));
        let token = token.context("the admin's context has no token")?;
        Ok(token.trim_matches('"').to_owned())
    }

    /// Waits for a future; other threads may do so at the same time.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Returns the runtime of the lab's clients, for threads that outlive a borrow of the lab.
    pub fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// Returns the place of the leader among the replicas, once all that run agree on one.
    ///
    /// # Panics
    /// When they do not.
    pub fn leader(&self) -> usize {
        let client = self.client(ADMIN).expect("the admin's context is there");
        until("the replicas agree on a leader", || {
            let mut agreed = None;
            for (n, _) in self.replicas.iter().enumerate().filter(|(_, replica)| replica.process.is_some()) {
                let hello = self.block_on(client.hello_at(n)).ok()?;
                let leader = self.replicas.iter().position(|r| Some(&r.client) == hello.leader.as_ref())?;
                if hello.role == "leader" && leader != n {
                    return None;
                }
                if *agreed.get_or_insert(leader) != leader {
                    return None;
                }
            }
            agreed.filter(|n| self.replicas[*n].process.is_some())
        })
    }

    /// Submits a job behind a new gate and returns its number.
    ///
    /// # Errors
    /// When the gate cannot be made.
    ///
    /// # Panics
    /// When it is refused.
    pub fn submit_gated(&self, user: &str, flags: &[&str]) -> Result<(u32, Gate)> {
        let gate = Gate::new(&self.folder, &self.fresh("job"))?;
        let command = gate.command();
        let mut args = vec!["submit", "-o", "name"];
        args.extend(flags);
        args.push("--");
        args.extend(command.iter().map(String::as_str));
        Ok((self.bursar_as(user, &args).number(), gate))
    }

    /// Submits a job that does what `words` say (see [`Work::launch`]), and returns its number.
    ///
    /// # Errors
    /// When its journal cannot be made, or it is refused.
    pub fn submit_work(&self, client: &Client, job: JobRequest, words: &[&str]) -> Result<(u32, Work)> {
        let name = self.fresh(&job.name);
        let work = Work::new(&self.folder, &name)?;
        let number = self.block_on(client.submit_new(JobRequest { name, ..job }, work.launch(words)))?;
        Ok((number, work))
    }

    /// Returns a name that no other call returned.
    pub fn fresh(&self, what: &str) -> String {
        format!("{what}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a file into the lab's folder and returns its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
        path.to_str().map(String::from).context("the lab's folder has a name that is no text")
    }

    /// Returns the times of the consensus among its replicas.
    pub fn timing(&self) -> Timing {
        self.plan.timing
    }

    /// Returns the lab's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the addresses of all replicas, as flags take them.
    pub fn servers(&self) -> String {
        self.replicas.iter().map(|replica| replica.client.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Returns the file with a principal's token.
    pub fn token_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.user-token"))
    }

    /// Returns the last lines of every process's log.
    pub fn logs(&self) -> String {
        let replicas = self.replicas.iter().filter_map(|r| Some((r.id.to_string(), r.process.as_ref()?)));
        let agents = self.agents.iter().filter_map(|a| Some((a.name.clone(), a.process.as_ref()?)));
        let tail =
            |(name, process): (String, &super::Process)| format!("--- {name}\n{}\n", process.log_tail());
        replicas.chain(agents).map(tail).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let is_failing = std::thread::panicking();
        if is_failing {
            eprintln!("{}", self.logs());
        }
        // Agents first: nothing is to be started while jobs end.
        self.agents.iter_mut().for_each(Agent::kill);
        self.replicas.iter_mut().for_each(Replica::kill);
        // A shim that ends leaves its job to be found in the next round.
        let gone = try_until(super::DEADLINE, || {
            let left = own_processes(&self.folder);
            left.iter().for_each(|process| kill(process.pid));
            left.is_empty().then_some(())
        });
        if gone.is_none() {
            eprintln!("processes of the lab in {} do not end", self.folder.display());
        }
        if is_failing {
            eprintln!("the lab's folder is kept: {}", self.folder.display());
        } else if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("failed to remove {}: {error}", self.folder.display());
        }
    }
}

/// Returns random bytes as hexadecimal text.
fn random_hex<const N: usize>() -> Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("the system gives no random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    io::Write::write_all(&mut file, text.as_bytes())
}
