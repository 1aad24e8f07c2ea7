//! `bursar cluster transfer-leader`, `ok-to-stop`, `member add|remove`: who leads, who comes, who goes.

use std::time::Duration;

use clap::Subcommand;
use proto::v1::{
    AddMembersRequest, ClusterStatusRequest, Founder, MembersView, OkToStopRequest, RemoveMemberReply,
    RemoveMemberRequest, TransferLeaderRequest,
};
use tokio::time::sleep;

use crate::client::Client;
use crate::clock::Deadline;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;
use crate::render;
use crate::shell::Shell;

/// The refusal of a change of replicas.
const MEMBERS: u16 = scheduler_core::command::Code::Members.number();
/// The refusal of what is not there.
const NOT_FOUND: u16 = scheduler_core::command::Code::NotFound.number();
/// Between two looks at replicas that join.
const LOOK: Duration = Duration::from_millis(300);
/// A replica that joins may be away for so long, as when it is started again.
const AWAY: Duration = Duration::from_secs(20);

/// Letting replicas come and go.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Let replicas join: each gets everything first, then all of them vote
    #[command(after_help = "Example, from one replica to three:\n  \
        bursar server -c /etc/bursar/server.toml     (on each of the two new machines)\n  \
        bursar cluster member add 127.0.0.1:7410 127.0.0.1:7420\n\n\
        A call that was cut off can be repeated: it goes on where it was. Several at once vote at the same moment, so \
        that no single one is needed meanwhile.")]
    Add {
        /// Where the new replica listens for clients; or, if that cannot be reached from here, CLIENT,PEER
        #[arg(required = true, value_name = "ADDRESS")]
        addresses: Vec<String>,
    },
    /// Take a replica out for good: its number is never used again
    Remove {
        /// The replica, like r3
        #[arg(value_name = "R")]
        replica: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

/// Runs `cluster member`.
///
/// # Errors
/// When it is refused, nobody can be asked, or no replica answers.
pub async fn run(shell: &Shell, action: Action) -> Result<Exit, Failure> {
    match action {
        Action::Add { addresses } => add(shell, &addresses).await,
        Action::Remove { replica, yes } => remove(shell, &replica, yes).await,
    }
}

/// Reads a replica's number, as `r3` or `3`.
///
/// # Errors
/// When it is none.
pub fn number(text: &str) -> Result<u64, Failure> {
    let digits = text.strip_prefix('r').unwrap_or(text);
    digits.parse().map_err(|_| {
        Failure::new(codes::USAGE, format!("`{text}` is not a replica"))
            .why("replicas are called r1, r2, r1031")
            .fix("bursar cluster status lists them")
    })
}

/// Runs `cluster transfer-leader`.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn transfer(shell: &Shell, to: Option<&str>) -> Result<Exit, Failure> {
    let client = shell.client()?;
    // Named first: the same word, said twice, must not send leadership on twice.
    let to = match to {
        Some(text) => number(text)?,
        None => next_leader(&client).await?,
    };
    let begun = Deadline::after(Duration::ZERO);
    let mut reply = client.transfer_leader(TransferLeaderRequest { to: Some(to) }).await?;
    super::schema(&mut reply.schema, "leader/v1");
    let says = match (reply.took_ms, reply.from == reply.to) {
        (0, true) if begun.elapsed() < Duration::from_secs(1) => format!("r{to} leads already\n"),
        // The first answer was lost: what is known is how long it took from here.
        (0, _) => format!("r{to} leads, after {}\n", ms(begun.elapsed())),
        (took, _) => format!("r{to} leads, after {took} ms; before it r{}\n", reply.from),
    };
    shell.show(&reply, &[format!("r{to}")], |_| says)?;
    Ok(Exit::Done)
}

fn ms(span: Duration) -> String {
    format!("{} ms", span.as_millis())
}

/// Returns the replica that has most of the log, of those that vote and do not lead.
async fn next_leader(client: &Client) -> Result<u64, Failure> {
    let view = client.cluster_status(ClusterStatusRequest { read: None }).await?;
    let followers = view.replicas.iter().filter(|replica| replica.votes && replica.role == "follower");
    let best = followers.min_by_key(|replica| (replica.behind.unwrap_or(u64::MAX), replica.replica));
    best.map(|replica| replica.replica).ok_or_else(|| {
        Failure::new(MEMBERS, "there is no other replica that could lead").fix("bursar cluster status")
    })
}

/// Runs `cluster ok-to-stop`.
///
/// # Errors
/// When there is no such replica, or none answers.
pub async fn ok_to_stop(shell: &Shell, replicas: &[String]) -> Result<Exit, Failure> {
    let replicas = replicas.iter().map(|text| number(text)).collect::<Result<Vec<_>, _>>()?;
    let mut view = shell.client()?.ok_to_stop(OkToStopRequest { replicas }).await?;
    super::schema(&mut view.schema, "ok-to-stop/v1");
    let name = if view.ok { "yes" } else { "no" };
    shell.show(&view, &[name.to_owned()], |_| render::cluster::ok_to_stop(&view))?;
    Ok(if view.ok { Exit::Done } else { Exit::NotOk })
}

async fn add(shell: &Shell, addresses: &[String]) -> Result<Exit, Failure> {
    let mut members = Vec::new();
    for text in addresses {
        members.push(joining(text).await?);
    }
    let client = shell.client()?;
    let request = AddMembersRequest { members, replaces: Vec::new() };
    let mut view = join(shell, &client, &request).await?;
    // The next command may need them.
    client.hello().await?;
    super::schema(&mut view.schema, "members/v1");
    let names: Vec<String> = view.joining.iter().map(|one| format!("r{}", one.replica)).collect();
    shell.show_rows(&view, &view.joining, &names, |_| render::cluster::joined(&view))?;
    Ok(Exit::Done)
}

/// Returns both addresses of a replica that is to join: it says the second one itself.
async fn joining(text: &str) -> Result<Founder, Failure> {
    if let Some((client, peer)) = text.split_once(',') {
        return Ok(Founder { client: client.trim().into(), peer: peer.trim().into() });
    }
    let asked = Client::new(&[text.to_owned()], None, Duration::from_secs(5), false)?;
    let hello = asked.hello().await.map_err(|failure| {
        failure.fix(format!(
            "start it there, on an empty data directory: bursar server; if it runs where this machine does not \
             reach it, give both its addresses: {text},PEER"
        ))
    })?;
    if hello.peer.is_empty() {
        return Err(Failure::new(codes::PROTOCOL, format!("{text} does not say where its peers reach it"))
            .fix(format!("give both addresses: {text},PEER")));
    }
    Ok(Founder { client: text.into(), peer: hello.peer })
}

/// Asks for the next step until all vote, and says how far they are.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn join(
    shell: &Shell,
    client: &Client,
    request: &AddMembersRequest,
) -> Result<MembersView, Failure> {
    let mut said = String::new();
    let mut away: Option<Deadline> = None;
    loop {
        match client.add_members(request.clone()).await {
            Ok(view) => {
                away = None;
                let text = render::cluster::joining(&view);
                if text != said {
                    shell.say(&text);
                    said = text;
                }
                if view.done {
                    return Ok(view);
                }
            }
            // Asked at the very moment when it is started again, or another change is decided.
            Err(failure) if failure.code == MEMBERS && !said.is_empty() => {
                if away.get_or_insert_with(|| Deadline::after(AWAY)).is_over() {
                    return Err(failure.closing("the same command goes on from here"));
                }
            }
            Err(failure) => return Err(failure),
        }
        sleep(LOOK).await;
    }
}

async fn remove(shell: &Shell, replica: &str, is_sure: bool) -> Result<Exit, Failure> {
    let undone = |failure: Failure| failure.closing("nothing was changed");
    let number = number(replica).map_err(undone)?;
    let client = shell.client()?;
    let seen =
        client.remove_member(RemoveMemberRequest { replica: number, dry: true }).await.map_err(undone)?;
    if !is_sure {
        shell.tell(&format!("{}; its number is never used again", seen.effect));
        if !shell.confirm(&format!("remove r{number}?")).map_err(undone)? {
            shell.say("nothing was changed");
            return Ok(Exit::Done);
        }
    }
    let begun = Deadline::after(Duration::ZERO);
    let asked = client.remove_member(RemoveMemberRequest { replica: number, dry: false }).await;
    let mut reply = match asked {
        Ok(reply) => reply,
        // It was there a moment ago: the first answer was lost.
        Err(failure) if failure.code == NOT_FOUND => RemoveMemberReply { removed: true, ..seen },
        Err(failure) => return Err(failure),
    };
    super::schema(&mut reply.schema, "removal/v1");
    let took = duration::short(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    shell.show(&reply, &[format!("r{number}")], |_| {
        format!("r{number} is removed, after {took}: {}\n", reply.effect)
    })?;
    Ok(Exit::Done)
}
