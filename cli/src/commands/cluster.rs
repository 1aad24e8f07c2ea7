//! `bursar cluster`: the control plane itself.

use std::collections::HashMap;
use std::path::PathBuf;

use clap::Subcommand;
use proto::v1::{ClusterStatusRequest, EndSafeModeRequest, FoundRequest, Founder, ReadAs};
use scheduler_core::settings::Kind as SettingKind;

use super::cluster_time;
use super::{member, pool};
use crate::client::found;
use crate::codes;
use crate::config::{self, Context};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;
use crate::render;
use crate::secret::Token;
use crate::shell::Shell;

/// Arguments of `cluster`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show replicas, agents, alarms
    Status {
        /// Take any replica's word, which may be old: works without a leader
        #[arg(long)]
        stale: bool,
    },
    /// Hand leadership to another replica, and wait until it leads
    TransferLeader {
        /// The replica, like r2 [default: the one that has most of the log]
        #[arg(value_name = "TO")]
        to: Option<String>,
    },
    /// Say whether replicas can be stopped without stopping the control plane; exit code 9 if not
    OkToStop {
        /// The replicas, like r1 r2: whether all of them can be stopped together
        #[arg(required = true, value_name = "R")]
        replicas: Vec<String>,
    },
    /// Let replicas come and go
    Member {
        #[command(subcommand)]
        action: member::Action,
    },
    /// Found a control plane: once, on the machine of one of its replicas
    Init(Init),
    /// Cluster time: what it is, what everybody's clocks say; set it forward
    #[command(after_help = "Examples:\n  \
        bursar cluster time\n  \
        bursar cluster time set wall --reason \"power cut of two weeks, NTP is fine\"")]
    Time(cluster_time::Args),
    /// Clusters that are accounted together, and what their types of GPU count
    Pool {
        #[command(subcommand)]
        action: pool::Action,
    },
    /// Safe mode: no job is started until a person has looked
    SafeMode {
        #[command(subcommand)]
        action: SafeMode,
    },
}

#[derive(Debug, Subcommand)]
enum SafeMode {
    /// Start jobs again
    End {
        /// What was found, and why it is over
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example, with three replicas waiting:\n  \
    bursar cluster init --founder 127.0.0.1:7400,127.0.0.1:7401 --founder 127.0.0.1:7410,127.0.0.1:7411 \\\n    \
    --founder 127.0.0.1:7420,127.0.0.1:7421 --setup-secret-file /var/lib/bursar/r1/setup-secret \\\n    \
    --root lab --admin ops --account ops\n\n\
    The first founder is the one that is spoken to; the setup secret is in its data folder.")]
struct Init {
    /// A replica: its address for clients and the one for its peers; in the order of their ids, from 1
    #[arg(long = "founder", required = true, value_name = "CLIENT,PEER")]
    founders: Vec<String>,
    /// The file `setup-secret` in the data folder of the first founder
    #[arg(long, value_name = "FILE")]
    setup_secret_file: PathBuf,
    /// The name of the root budget
    #[arg(long, value_name = "NAME")]
    root: String,
    /// The first principal: operator, and owner of the root budget
    #[arg(long, value_name = "NAME")]
    admin: String,
    /// The Unix account that its jobs run as
    #[arg(long, value_name = "ACCOUNT")]
    account: String,
    /// Take nodes whose GPUs are simulated
    #[arg(long)]
    allow_simulated: bool,
    /// A setting, NAME=DURATION, like cap=8h; repeat for more
    #[arg(long = "set", value_name = "NAME=DURATION")]
    settings: Vec<String>,
    /// The context to write and select
    #[arg(long, value_name = "NAME", default_value = "default")]
    as_context: String,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Action::Status { stale } => status(shell, stale).await,
        Action::Init(args) => init(shell, args).await,
        Action::Time(args) => cluster_time::run(shell, args).await,
        Action::TransferLeader { to } => member::transfer(shell, to.as_deref()).await,
        Action::OkToStop { replicas } => member::ok_to_stop(shell, &replicas).await,
        Action::Member { action } => member::run(shell, action).await,
        Action::Pool { action } => pool::run(shell, action).await,
        Action::SafeMode { action: SafeMode::End { reason } } => {
            let client = shell.client()?;
            let mark = Some(client.mark(None).await?);
            client.end_safe_mode(EndSafeModeRequest { mark, reason }).await?;
            shell.say("safe mode is over: jobs are started again");
            Ok(Exit::Done)
        }
    }
}

async fn status(shell: &Shell, stale: bool) -> Result<Exit, Failure> {
    let request = ClusterStatusRequest { read: Some(ReadAs { stale }) };
    let client = shell.client()?;
    let mut view = client.cluster_status(request).await?;
    client.learn(&view.replicas.iter().map(|replica| replica.client.clone()).collect::<Vec<_>>());
    super::schema(&mut view.schema, "cluster/v1");
    shell.show(&view, std::slice::from_ref(&view.cluster), |look| render::cluster::status(&view, look))?;
    Ok(Exit::Done)
}

async fn init(shell: &Shell, args: Init) -> Result<Exit, Failure> {
    let founders = args.founders.iter().map(|text| founder(text)).collect::<Result<Vec<_>, _>>()?;
    let servers: Vec<String> = founders.iter().map(|founder| founder.client.clone()).collect();
    let settings_ms = args.settings.iter().map(|text| setting(text)).collect::<Result<HashMap<_, _>, _>>()?;
    let secret = crate::shell::read_text(&args.setup_secret_file)?;
    let before = config::load()?;
    // The same call again after one without an answer is the same founding: with the token that it may have taken.
    let asked = before.contexts.get(&args.as_context).filter(|context| context.servers == servers);
    let token = match asked.and_then(|context| context.token.clone()) {
        Some(text) => Token::of(text),
        None => Token::make()?,
    };
    let request = FoundRequest {
        founders,
        root: args.root,
        admin: args.admin.clone(),
        admin_token_hash: token.hash(),
        admin_account: args.account,
        allow_simulated: args.allow_simulated,
        settings_ms,
    };
    // Kept first: the admin's token is in nobody's hand but ours.
    let mut config = before.clone();
    let context =
        Context { servers: servers.clone(), token: Some(token.text().into()), ..Context::default() };
    config.contexts.insert(args.as_context.clone(), context);
    config.context = Some(args.as_context.clone());
    config::save(&config)?;
    let reply = match found(&servers[0], secret.trim(), request).await {
        Ok(reply) => reply,
        Err(failure) => {
            // Without an answer it may be founded, and then nobody else has the token.
            if failure.exit != Exit::Unreachable {
                config::save(&before)?;
            }
            return Err(failure);
        }
    };
    let text = render::cluster::founded(&reply.cluster, servers.len());
    shell.show(&reply, std::slice::from_ref(&reply.cluster), |_| text)?;
    shell.say(&format!("context {} is selected; you are {}", args.as_context, args.admin));
    Ok(Exit::Done)
}

fn founder(text: &str) -> Result<Founder, Failure> {
    let (client, peer) = text.split_once(',').ok_or_else(|| {
        Failure::new(codes::USAGE, format!("`{text}` is not a founder"))
            .fix("--founder CLIENT,PEER: both addresses, like 127.0.0.1:7400,127.0.0.1:7401")
    })?;
    Ok(Founder { peer: peer.trim().into(), client: client.trim().into() })
}

fn setting(text: &str) -> Result<(String, u64), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failure::new(codes::USAGE, format!("`{text}` is not a setting"))
            .fix("--set NAME=VALUE, like cap=8h, barren_max=5 or dates=no")
    })?;
    let wrong = |what: &str| Failure::new(codes::USAGE, format!("--set {name}: `{value}` is not {what}"));
    let value = match SettingKind::of(name) {
        Some(SettingKind::Flag) => match value {
            "yes" => 1,
            "no" => 0,
            _ => return Err(wrong("yes or no")),
        },
        Some(SettingKind::Count) => value.parse().map_err(|_| wrong("a whole number"))?,
        // One that is not known the replica refuses, with its name.
        Some(SettingKind::Time) | None => duration::parse(value)
            .map_err(|what| Failure::new(codes::DURATION, format!("--set {name}: {what}")))?
            .as_millis(),
    };
    Ok((name.into(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_times_numbers_or_a_yes() {
        let good = [("cap=4h", 14_400_000), ("barren_max=5", 5), ("dates=no", 0), ("short_later=yes", 1)];
        for (text, value) in good {
            let (name, _) = text.split_once('=').expect("a pair");
            assert_eq!(setting(text).expect(text), (name.to_owned(), value));
        }
        for bad in ["cap", "cap=8", "barren_max=5s", "barren_max=-1", "dates=0", "dates=maybe"] {
            setting(bad).expect_err(bad);
        }
    }
}
