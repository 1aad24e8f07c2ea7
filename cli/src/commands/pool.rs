//! `bursar cluster pool`: which clusters are accounted together, and what their types of GPU count.

use clap::Subcommand;
use proto::v1::{ClusterPoolList, ListPoolsRequest, SetPoolRequest, TypeWeightView};

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::weight;
use crate::render;
use crate::shell::Shell;

/// What is done with pools.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the pools
    List,
    /// Make a pool, or change it: what is not named here is not in it any more
    #[command(after_help = "Examples:\n  \
        bursar cluster pool set big --cluster east --cluster west\n  \
        bursar cluster pool set main --weight h100=1 --weight a100=0.4\n  \
        bursar cluster pool set big      it is no pool any more: each of its clusters is one of its own\n\n\
        A cluster that no pool names is in the pool of its own name. Books, order and dates are per pool. To move a \
        cluster, have its nodes empty: `bursar node drain`.")]
    Set(Set),
}

/// Arguments of `set`.
#[derive(Debug, clap::Args)]
pub struct Set {
    /// Its name
    name: String,
    /// A cluster of it; repeat for more
    #[arg(long = "cluster", value_name = "NAME")]
    clusters: Vec<String>,
    /// What GPUs of a type count, by their model or a part of its name; repeat for more, the first that fits counts
    #[arg(long = "weight", value_name = "TYPE=NUMBER")]
    weights: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, action: Action) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let view = match action {
        Action::List => client.list_pools(ListPoolsRequest { read: None }).await?,
        Action::Set(args) => {
            let weights = args.weights.iter().map(|text| weight_of(text)).collect::<Result<_, _>>()?;
            let mark = Some(client.mark(None).await?);
            let (name, clusters) = (args.name, args.clusters);
            client.set_pool(SetPoolRequest { mark, name, clusters, weights }).await?
        }
    };
    show(shell, view)
}

fn show(shell: &Shell, mut view: ClusterPoolList) -> Result<Exit, Failure> {
    super::schema(&mut view.schema, "pool-list/v1");
    let names: Vec<String> = view.pools.iter().map(|pool| pool.name.clone()).collect();
    shell.show_rows(&view, &view.pools, &names, |_| render::pool::pools(&view))?;
    Ok(Exit::Done)
}

fn weight_of(text: &str) -> Result<TypeWeightView, Failure> {
    let wrong = || {
        Failure::new(codes::USAGE, format!("`{text}` is not a weight"))
            .fix("--weight TYPE=NUMBER, from 0.001 to 1000, like h100=1 or a100=0.35")
    };
    let (kind, number) = text.rsplit_once('=').ok_or_else(wrong)?;
    let weight_milli = weight::parse(number).ok_or_else(wrong)?;
    Ok(TypeWeightView { gpu_type: kind.trim().into(), weight_milli })
}
