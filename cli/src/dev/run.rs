//! The command: raise, supervise, end; or a word to one that runs.

use rustix::process::{Pid, getpid, set_child_subreaper};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};

use super::args::{Action, Args};
use super::cluster::Cluster;
use super::control::{self, Request};
use super::lock::{self, Lock};
use super::place::Place;
use super::processes::{Identity, identify, is_alive};
use super::state::State;
use super::{end, preempt_demo, raise, screen, supervise, tour};
use crate::codes;
use crate::config::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// The context that is written and selected.
const CONTEXT: &str = "dev";

/// Runs the command.
///
/// # Errors
/// When the cluster does not come up, or none runs.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let ask = |request| {
        let said = control::ask(&lock::running()?, request)?;
        shell.print(&format!("{said}\n"))?;
        Ok(Exit::Done)
    };
    match args.action.clone() {
        None => in_runtime(shell, args),
        Some(Action::KillLeader) => ask(Request::KillLeader),
        Some(Action::KillAgent { n, term }) => ask(Request::KillAgent { n, term }),
        Some(Action::StopReplicas) => ask(Request::StopReplicas),
        Some(Action::StartReplicas) => ask(Request::StartReplicas),
        Some(Action::Stop) => ask(Request::Stop),
        Some(Action::Status) => status(shell),
        Some(Action::Tour(tour)) => tour::run(shell, &args, &tour),
        Some(Action::PreemptDemo) => preempt_demo::run(shell, &args),
    }
}

fn status(shell: &Shell) -> Result<Exit, Failure> {
    let place = lock::running()?;
    // One that is still clearing up after a killed one is named by that one's folder.
    let state = State::read(&place.state()).filter(|state| is_alive(state.supervisor)).ok_or_else(|| {
        Failure::new(codes::DEV_NOT, "the development cluster is only starting").fix("try again in a moment")
    })?;
    let names: Vec<String> =
        state.replicas.iter().chain(&state.agents).map(|part| part.name.clone()).collect();
    shell.show(&state, &names, |_| screen::status(&state))?;
    Ok(Exit::Done)
}

fn in_runtime(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let mut lock = Lock::take()?;
    end::clear(&Place::at(lock.last()), |text| shell.say(text));
    let us = supervisor()?;
    let place = Place::make()?;
    lock.name(&place)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(codes::DEV_FAILED, "cannot start").why(error.to_string()))?;
    let keep = args.keep;
    let result =
        Cluster::new(args, place.clone(), us).and_then(|cluster| runtime.block_on(live(shell, cluster)));
    if keep {
        shell.say(&format!("kept {}", place.folder().display()));
    } else if let Err(error) = place.remove() {
        shell.say(&format!("could not remove {}: {error}", place.folder().display()));
    }
    result.map(|()| Exit::Done)
}

/// Makes us the one to whom orphans of our tree come, so that none is lost sight of.
fn supervisor() -> Result<Identity, Failure> {
    let failed = |why: String| Failure::new(codes::DEV_FAILED, "cannot supervise processes").why(why);
    let us = getpid();
    set_child_subreaper(Some(us)).map_err(|error| failed(error.to_string()))?;
    identify(Pid::as_raw(Some(us))).ok_or_else(|| failed("/proc does not show us".into()))
}

/// Raises, shows, supervises, and ends whatever came.
async fn live(shell: &Shell, mut cluster: Cluster) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::new(codes::DEV_FAILED, "cannot start").why(error.to_string());
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let listener = UnixListener::bind(cluster.place.socket()).map_err(failed)?;
    let before = config::load()?.context;
    let lived = tokio::select! {
        lived = up(shell, &mut cluster, &listener) => lived,
        _ = int.recv() => Ok(()),
        _ = term.recv() => Ok(()),
        _ = hangup.recv() => Ok(()),
    };
    shell.say("ending jobs, agents and replicas");
    let forgotten = forget_context(before);
    tokio::select! {
        () = end::end(&mut cluster, |text| shell.say(text)) => (),
        () = twice(&mut int) => shell.say("asked again: ending at once"),
    }
    lived.and(forgotten)
}

/// Waits for a second Ctrl-C, and then a third one.
async fn twice(int: &mut tokio::signal::unix::Signal) {
    int.recv().await;
    int.recv().await;
}

async fn up(shell: &Shell, cluster: &mut Cluster, listener: &UnixListener) -> Result<(), Failure> {
    raise::raise(cluster, |text| shell.say(text)).await?;
    write_context(cluster)?;
    let text = screen::screen(&cluster.place, cluster.args.nodes, cluster.args.gpus, &cluster.addresses());
    shell.print(&format!("\n{text}"))?;
    supervise::supervise(cluster, listener, |text| shell.say(text)).await
}

fn write_context(cluster: &Cluster) -> Result<(), Failure> {
    let mut config = config::load()?;
    let context = Context {
        servers: cluster.addresses(),
        token: Some(cluster.admin.text().into()),
        ..Context::default()
    };
    config.contexts.insert(CONTEXT.into(), context);
    config.context = Some(CONTEXT.into());
    config::save(&config)
}

/// Removes the context, and selects the one from before.
fn forget_context(before: Option<String>) -> Result<(), Failure> {
    let mut config = config::load()?;
    if config.contexts.remove(CONTEXT).is_none() {
        return Ok(());
    }
    if config.context.as_deref() == Some(CONTEXT) {
        config.context = before.filter(|name| config.contexts.contains_key(name));
    }
    config::save(&config)
}
