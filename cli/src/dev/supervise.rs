//! While it runs: parts that end are started again, orphans are reaped, commands are carried out.

use std::time::Duration;

use rustix::process::Signal;
use tokio::net::UnixListener;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::cluster::Cluster;
use super::control::{self, Reply, Request};
use super::processes;
use crate::clock::Deadline;
use crate::failure::Failure;
use crate::form::text::ordinal;

/// How often parts are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long a part that ended stays down, so that it can be seen to be.
const DOWN_FOR: Duration = Duration::from_millis(700);

/// How long killed replicas may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Supervises until somebody asks for the end over the socket. The caller races it against signals.
///
/// # Errors
/// When a part cannot be started again.
pub async fn supervise(
    cluster: &mut Cluster,
    listener: &UnixListener,
    say: impl Fn(&str),
) -> Result<(), Failure> {
    let mut tick = interval(LOOK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut down: Vec<(String, Deadline)> = Vec::new();
    loop {
        tokio::select! {
            _ = tick.tick() => look(cluster, &mut down, &say)?,
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let Some((request, stream)) = control::read(stream).await else { continue };
                let reply = carry_out(cluster, request).await?;
                cluster.write_state()?;
                say(&reply.said);
                control::answer(stream, &reply).await;
                if request == Request::Stop {
                    return Ok(());
                }
            }
        }
    }
}

fn look(
    cluster: &mut Cluster,
    down: &mut Vec<(String, Deadline)>,
    say: &impl Fn(&str),
) -> Result<(), Failure> {
    let ours: Vec<i32> = parts(cluster).filter_map(|part| Some(part.process()?.pid)).collect();
    processes::reap(cluster.supervisor.pid, &ours);
    let mut has_changed = false;
    for part in cluster.replicas.iter_mut().chain(&mut cluster.agents) {
        if let Some(how) = part.has_ended() {
            has_changed = true;
            let next = if part.is_wanted { "; it is started again" } else { "" };
            say(&format!("{} ended ({how}){next}", part.name));
            down.push((part.name.clone(), Deadline::after(DOWN_FOR)));
        }
        let rests = down.iter().any(|(name, until)| *name == part.name && !until.is_over());
        if part.is_wanted && part.process().is_none() && !rests {
            down.retain(|(name, _)| *name != part.name);
            part.start()?;
            has_changed = true;
        }
    }
    if has_changed { cluster.write_state() } else { Ok(()) }
}

fn parts(cluster: &Cluster) -> impl Iterator<Item = &super::part::Part> {
    cluster.replicas.iter().chain(&cluster.agents)
}

async fn carry_out(cluster: &mut Cluster, request: Request) -> Result<Reply, Failure> {
    let done = |said: String| Ok(Reply { done: true, said });
    let not = |said: &str| Ok(Reply { done: false, said: said.into() });
    match request {
        Request::KillLeader => match cluster.leader().await {
            Some(n) if cluster.replicas[n].signal(Signal::KILL) => done(format!(
                "killed the leader, {}; it is started again in a moment",
                cluster.replicas[n].name
            )),
            _ => not("there is no leader now"),
        },
        Request::KillAgent { n, term } => {
            let agent = n.checked_sub(1).and_then(|n| cluster.agents.get(n));
            let Some(agent) = agent else { return not(&format!("there is no {} node", ordinal_of(n))) };
            let (signal, how) = if term { (Signal::TERM, "asked to end") } else { (Signal::KILL, "killed") };
            match agent.signal(signal) {
                true => done(format!("{how}: the agent of {}; it is started again in a moment", agent.name)),
                false => not("that agent is down already"),
            }
        }
        Request::StopReplicas => {
            for replica in &mut cluster.replicas {
                replica.is_wanted = false;
                replica.signal(Signal::KILL);
            }
            let deadline = Deadline::after(GONE_WITHIN);
            while cluster.replicas.iter_mut().any(|one| one.has_ended().is_none() && one.process().is_some())
            {
                if deadline.is_over() {
                    return not("the replicas do not go");
                }
                sleep(Duration::from_millis(10)).await;
            }
            done("all replicas are killed and stay down: bursar dev start-replicas".into())
        }
        Request::StartReplicas => {
            for replica in &mut cluster.replicas {
                replica.is_wanted = true;
                if replica.process().is_none() {
                    replica.start()?;
                }
            }
            done("all replicas are started".into())
        }
        Request::Stop => done("ending".into()),
    }
}

fn ordinal_of(n: usize) -> String {
    u32::try_from(n).map_or_else(|_| n.to_string(), ordinal)
}
