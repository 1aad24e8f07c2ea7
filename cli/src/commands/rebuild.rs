//! `bursar server rebuild`: a replica whose data is damaged, lost or an older copy comes back under a new number.
//!
//! ```text
//!   stopped? ── what does it say? ── may the old one go? ── data aside ── start ── join, old one out ── stop
//! ```
//!
//! Each step finds what an earlier try has done, so the same command goes on after whatever cut it off.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use proto::v1::{AddMembersRequest, ClusterStatusRequest, ClusterView, Founder, RemoveMemberRequest};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::member;
use super::server::Flags;
use crate::client::Client;
use crate::clock::Deadline;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// How long the replica may take to listen, and to end.
const UP_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Where old data is kept, in the data directory: it stays on the same disk, and with the same owner.
const KEPT: &str = "kept-";
/// What the replica says while it is rebuilt.
const LOG: &str = "rebuild.log";

/// Arguments of `server rebuild`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, on the machine of the replica, as the account that it runs as:\n  \
    systemctl stop bursar-server\n  \
    bursar server rebuild -c /etc/bursar/server.toml\n  \
    systemctl start bursar-server\n\n\
    Takes the flags that `bursar server` is started with. The old data is kept in DIR/kept-1; when you are sure \
    that nobody needs it, delete it. A rebuild that was cut off goes on with the same command.\n\
    Needs an operator's token, and a majority of the replicas without this one.")]
pub struct Args {
    /// How it is started.
    #[command(flatten)]
    flags: Flags,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Go on running as `bursar server` does when it is done
    #[arg(long)]
    stay: bool,
}

/// Runs the command.
///
/// # Errors
/// When the replica runs, it cannot be spared, or a step fails.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(codes::PROCESS, "cannot start").why(error.to_string()))?;
    let rebuilt = runtime.block_on(rebuild(shell, args));
    shell.keep_learned();
    rebuilt
}

async fn rebuild(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let undone = |failure: Failure| failure.closing("nothing was changed");
    let config = args.flags.settings().map_err(undone)?;
    let data = config.data.as_path();
    if let Some(holder) = server::holder(data).map_err(|error| undone(file(data, &error)))? {
        return Err(undone(
            Failure::new(codes::PROCESS, format!("the replica runs, as process {holder}"))
                .why("its data cannot be put aside under it")
                .fix("stop it first: systemctl stop bursar-server"),
        ));
    }
    let client = shell.client().map_err(undone)?;
    let view = client.cluster_status(ClusterStatusRequest { read: None }).await.map_err(undone)?;
    let plan = Plan::of(data, &config, &view).map_err(undone)?;
    if !args.yes && !may_go_on(shell, &client, &plan, data).await.map_err(undone)? {
        shell.say("nothing was changed");
        return Ok(Exit::Done);
    }
    let going_on = |failure: Failure| failure.closing("the same command goes on from here");
    let kept = if plan.is_joining { None } else { put_aside(data).map_err(|error| file(data, &error))? };
    if let Some(kept) = &kept {
        shell.say(&format!("the old data is kept in {}", kept.display()));
    }
    let mut replica = start(&args.flags, data).map_err(going_on)?;
    let joined = join(shell, &client, &mut replica, data, &plan).await.map_err(going_on);
    if joined.is_err() || !args.stay {
        end(&mut replica).await;
    }
    let number = joined?;
    let was = plan.old.map_or(String::new(), |old| format!(", in the place of r{old}"));
    let next = if args.stay { "" } else { "; start it again as you do: systemctl start bursar-server" };
    let text = format!("rebuilt: this replica is r{number} now{was}, and votes{next}\n");
    let said =
        serde_json::json!({ "schema": "rebuild/v1", "replica": number, "replaces": plan.old, "kept": kept });
    shell.show(&said, &[format!("r{number}")], |_| text)?;
    if args.stay {
        stay(replica).await?;
    }
    Ok(Exit::Done)
}

fn file(data: &Path, error: &io::Error) -> Failure {
    Failure::new(codes::FILE, format!("cannot use {}", data.display())).why(error.to_string())
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// The number that goes, if it is still on the list.
    old: Option<u64>,
    /// Whether an earlier try has come so far that the data is the new replica's already.
    is_joining: bool,
}

impl Plan {
    fn of(data: &Path, config: &server::Config, view: &ClusterView) -> Result<Self, Failure> {
        let identity = server::identity(data);
        if let Some((cluster, _)) = identity.as_ref().filter(|(cluster, _)| *cluster != view.cluster) {
            return Err(Failure::new(codes::PROCESS, "the data belongs to another control plane")
                .why(format!("it is of {cluster}, this context speaks to {}", view.cluster))
                .fix("bursar context list; --context NAME"));
        }
        let is_ours = |number: u64| identity.as_ref().is_some_and(|(_, own)| *own == number);
        let here = |replica: &&proto::v1::ReplicaView| {
            replica.peer == config.peer_listen.to_string() || replica.client == config.listen.to_string()
        };
        let joining = view.replicas.iter().find(|replica| is_ours(replica.replica) && !replica.votes);
        let of_address = view
            .replicas
            .iter()
            .filter(here)
            .find(|replica| joining.is_none_or(|joining| joining.replica != replica.replica));
        let own = view.replicas.iter().find(|replica| is_ours(replica.replica) && replica.votes);
        let old = own.or(of_address);
        if let Some(old) = old.filter(|old| old.role != "no answer" && joining.is_none()) {
            return Err(Failure::new(codes::PROCESS, format!("r{} answers: it is not stopped", old.replica))
                .why("a replica that answers needs no rebuilding, and two at one address would be one too many")
                .fix("stop it first: systemctl stop bursar-server"));
        }
        Ok(Self { old: old.map(|old| old.replica), is_joining: joining.is_some() })
    }
}

/// Shows what it means, and asks; refuses what the others could not bear.
async fn may_go_on(shell: &Shell, client: &Client, plan: &Plan, data: &Path) -> Result<bool, Failure> {
    let effect = match plan.old {
        Some(old) => client.remove_member(RemoveMemberRequest { replica: old, dry: true }).await?.effect,
        None => "no replica goes: this one is on no list any more".into(),
    };
    shell.tell(&format!(
        "{effect}\nthe data in {} is kept aside, a new replica starts empty in its place, gets everything from the \
         others, and votes then",
        data.display()
    ));
    shell.confirm("rebuild this replica?")
}

/// Moves everything in the directory into a new folder in it; returns that folder, if there was anything.
fn put_aside(data: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(data) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let stays = |name: &str| name.starts_with(KEPT) || name == LOG || name == "lost+found";
    let moved: Vec<_> =
        entries.into_iter().filter(|entry| !entry.file_name().to_str().is_some_and(stays)).collect();
    if moved.is_empty() {
        return Ok(None);
    }
    let kept = (1..).map(|n| data.join(format!("{KEPT}{n}"))).find(|path| !path.exists());
    let kept = kept.ok_or_else(|| io::Error::other("there is no name left for the old data"))?;
    fs::create_dir(&kept)?;
    // Who it is goes first: what is left after a cut belongs to nobody, and is put aside by the next try.
    let mut moved: Vec<_> = moved.into_iter().map(|entry| entry.file_name()).collect();
    moved.sort_by_key(|name| name != "identity");
    for name in moved {
        fs::rename(data.join(&name), kept.join(&name))?;
    }
    fs::File::open(data)?.sync_all()?;
    Ok(Some(kept))
}

/// Starts the replica as a process of its own.
fn start(flags: &Flags, data: &Path) -> Result<Child, Failure> {
    let failed =
        |error: io::Error| Failure::new(codes::PROCESS, "the replica cannot start").why(error.to_string());
    let _ = fs::remove_file(data.join("addresses"));
    server::make_private(data).map_err(failed)?;
    let log = fs::OpenOptions::new().create(true).append(true).open(data.join(LOG)).map_err(failed)?;
    let out = log.try_clone().map_err(failed)?;
    let us = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(us);
    for name in ["BURSAR_SERVER", "BURSAR_TOKEN", "BURSAR_TOKEN_FILE", "BURSAR_CONTEXT", "BURSAR_OUTPUT"] {
        command.env_remove(name);
    }
    command.arg("server").args(flags.arguments()).stdin(Stdio::null()).stdout(out).stderr(log);
    command.kill_on_drop(true).spawn().map_err(failed)
}

/// Has the replica join in the old one's place; returns its number.
async fn join(
    shell: &Shell,
    client: &Client,
    replica: &mut Child,
    data: &Path,
    plan: &Plan,
) -> Result<u64, Failure> {
    let deadline = Deadline::after(UP_WITHIN);
    let addresses = loop {
        if let Ok(addresses) = server::Addresses::read(data) {
            break addresses;
        }
        let ended = replica.try_wait().ok().flatten();
        if ended.is_some() || deadline.is_over() {
            let log = data.join(LOG);
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(8)..].join("\n");
            return Err(Failure::new(codes::PROCESS, "the replica did not come up")
                .why(last)
                .fix(format!("its log is {}", log.display())));
        }
        sleep(LOOK).await;
    };
    let members = vec![Founder { client: addresses.client.to_string(), peer: addresses.peer.to_string() }];
    let request = AddMembersRequest { members, replaces: plan.old.into_iter().collect() };
    let view = member::join(shell, client, &request).await?;
    view.joining.first().map(|one| one.replica).ok_or_else(|| {
        Failure::new(codes::PROTOCOL, "the control plane does not say which replica this is now")
    })
}

/// Asks the replica to end, and waits.
async fn end(replica: &mut Child) {
    if let Some(pid) =
        replica.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw)
    {
        // One that has ended needs no asking.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if tokio::time::timeout(END_WITHIN, replica.wait()).await.is_err() {
        // Its data is whole after any end.
        let _ = replica.kill().await;
    }
}

/// Goes on as `bursar server` does: until told to end, or the replica ends by itself.
async fn stay(mut replica: Child) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: io::Error| Failure::new(codes::PROCESS, "cannot wait").why(error.to_string());
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::select! {
        _ = term.recv() => end(&mut replica).await,
        _ = int.recv() => end(&mut replica).await,
        ended = replica.wait() => {
            let ended = ended.map_err(failed)?;
            if !ended.success() {
                return Err(Failure::new(codes::PROCESS, format!("the replica stopped: {ended}")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proto::v1::{ClusterView, ReplicaView};

    use super::{Plan, put_aside};

    fn view(replicas: Vec<ReplicaView>) -> ClusterView {
        ClusterView { cluster: "c1".into(), replicas, ..ClusterView::default() }
    }

    fn replica(number: u64, role: &str, votes: bool) -> ReplicaView {
        let (replica, role, peer) = (number, role.to_owned(), "127.0.0.1:7401".to_owned());
        ReplicaView { replica, role, votes, peer, ..ReplicaView::default() }
    }

    #[test]
    fn old_number_is_found_by_the_address_where_the_data_no_longer_tells() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = server::Config::new(dir.path(), "/s");
        let plan = |replicas| Plan::of(dir.path(), &config, &view(replicas));
        let away = plan(vec![replica(2, "no answer", true)]).expect("it is stopped");
        assert_eq!(away, Plan { old: Some(2), is_joining: false });
        assert_eq!(plan(Vec::new()).expect("it was removed"), Plan { old: None, is_joining: false });
        let answers = plan(vec![replica(2, "follower", true)]).expect_err("it runs");
        assert!(answers.what.contains("r2 answers"), "{answers:?}");
    }

    #[test]
    fn data_is_kept_whole_and_what_was_kept_before_stays() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(put_aside(&dir.path().join("none")).expect("nothing is there"), None);
        let fill = |text: &str| {
            std::fs::create_dir(dir.path().join("log")).expect("a folder");
            std::fs::write(dir.path().join("log/db"), text).expect("a file");
            std::fs::write(dir.path().join("identity"), text).expect("a file");
        };
        for (n, text) in [(1, "one"), (2, "two")] {
            fill(text);
            let kept = put_aside(dir.path()).expect("it is moved").expect("there was something");
            assert_eq!(kept, dir.path().join(format!("kept-{n}")));
            assert_eq!(std::fs::read(kept.join("log/db")).expect("it is kept"), text.as_bytes());
            assert!(!dir.path().join("identity").exists());
        }
        assert_eq!(put_aside(dir.path()).expect("nothing is left"), None);
        assert_eq!(std::fs::read(dir.path().join("kept-1/identity")).expect("it stays"), b"one");
    }
}
