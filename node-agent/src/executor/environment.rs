//! The environment of a rank, built from nothing.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use scheduler_core::agent::Assignment;
use scheduler_core::spec::Launch;
use shim::format::{CHECKPOINT, HOSTS, JOB, MARK_VARIABLE, NOTICE, SOCKET};
use shim::progress::SOCKET_PATH_MAX;

use super::account::Found;
use super::config::Config;
use super::launch::{LaunchError, Order};

/// Where programs are looked for if the job says nothing.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Beginnings of names that only we set.
const OURS: [&str; 3] = ["BURSAR_", "CUDA_", "NVIDIA_"];
/// The largest secret, in bytes.
const SECRET_MAX: u64 = 64 << 10;

/// Builds the environment: the mark first (so that it is found at once), the account's, the job's own, ours last.
pub(super) fn build(
    config: &Config,
    order: &Order<'_>,
    account: &Found,
    mark: &str,
) -> Result<Vec<Vec<u8>>, LaunchError> {
    let launch: &Launch = order.launch;
    let mut entries: Vec<(String, Vec<u8>)> = vec![
        (MARK_VARIABLE.to_owned(), mark.as_bytes().to_vec()),
        ("PATH".to_owned(), PATH.as_bytes().to_vec()),
        ("HOME".to_owned(), account.home.as_os_str().as_bytes().to_vec()),
        ("USER".to_owned(), account.name.clone().into_bytes()),
        ("LOGNAME".to_owned(), account.name.clone().into_bytes()),
    ];
    let mut set = |name: &str, value: Vec<u8>| match entries.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => entries.push((name.to_owned(), value)),
    };
    for (name, value) in &launch.env {
        check_name(name)?;
        set(name, value.clone().into_bytes());
    }
    for name in &launch.secrets {
        check_name(name)?;
        set(name, secret(config, name, account)?);
    }
    for (name, value) in ours(config, order).into_iter().chain(gang(config, order)) {
        set(name, value.into_bytes());
    }
    // Names that many programs read: what the job itself says of them stands.
    for (name, value) in rendezvous(order.assignment) {
        if !entries.iter().any(|(known, _)| known == name) {
            entries.push((name.to_owned(), value.into_bytes()));
        }
    }
    Ok(entries.into_iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_slice()].concat()).collect())
}

fn check_name(name: &str) -> Result<(), LaunchError> {
    if OURS.iter().any(|prefix| name.starts_with(prefix)) {
        return Err(LaunchError::job(126, format!("the variable {name} is not the job's to set")));
    }
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || !plain {
        return Err(LaunchError::job(126, "a variable's name is not valid".to_owned()));
    }
    Ok(())
}

fn ours(config: &Config, order: &Order<'_>) -> Vec<(&'static str, String)> {
    let assignment = order.assignment;
    let directory = config.attempt(order.id());
    let inside = |name: &str| directory.join(name).display().to_string();
    let comma = |list: Vec<&str>| list.join(",");
    let mut list = vec![
        ("BURSAR_JOB_ID", assignment.attempt.job.to_string()),
        ("BURSAR_ATTEMPT", assignment.attempt.no.to_string()),
        ("BURSAR_RANK", assignment.rank.to_string()),
        ("BURSAR_BUDGET", assignment.budget.clone()),
        ("BURSAR_NOTICE_FILE", inside(NOTICE)),
        ("BURSAR_CHECKPOINT_FILE", directory.join(JOB).join(CHECKPOINT).display().to_string()),
        ("CUDA_VISIBLE_DEVICES", comma(assignment.gpus.iter().map(|gpu| gpu.as_str()).collect())),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
    ];
    let socket = inside(SOCKET);
    if socket.len() <= SOCKET_PATH_MAX {
        list.push(("BURSAR_CHECKPOINT_SOCKET", socket));
    }
    if let Some(task) = assignment.array {
        list.push(("BURSAR_ARRAY_JOB_ID", task.of.to_string()));
        list.push(("BURSAR_ARRAY_TASK_ID", task.index.to_string()));
        list.push(("BURSAR_ARRAY_TASK_COUNT", task.count.to_string()));
        list.push(("BURSAR_ARRAY_TASK_MIN", task.min.to_string()));
        list.push(("BURSAR_ARRAY_TASK_MAX", task.max.to_string()));
    }
    if let Some(until) = order.protected_until {
        // Seconds since 1970, as `date -d @N` reads them.
        list.push(("BURSAR_PROTECTED_UNTIL", (until.as_millis() / 1_000).to_string()));
    }
    list
}

/// Where the attempt's other ranks are: the same on each of its nodes, but for the rank.
fn gang(config: &Config, order: &Order<'_>) -> Vec<(&'static str, String)> {
    let assignment = order.assignment;
    let names: Vec<&str> = assignment.nodes.iter().map(|name| name.as_str()).collect();
    vec![
        ("BURSAR_NODELIST", names.join(",")),
        ("BURSAR_NODES", names.join(",")),
        ("BURSAR_NODE_ADDRESSES", addresses(assignment).join(",")),
        ("BURSAR_HOSTFILE", config.attempt(order.id()).join(HOSTS).display().to_string()),
        ("BURSAR_RENDEZVOUS_ID", assignment.attempt.to_string()),
    ]
}

/// The names that PyTorch and those like it agree on. With one node nobody has to meet.
fn rendezvous(assignment: &Assignment) -> Vec<(&'static str, String)> {
    let (nodes, processes) = (assignment.nodes.len().max(1), assignment.gpus.len().max(1));
    let mut list = vec![
        ("NNODES", nodes.to_string()),
        ("NODE_RANK", assignment.rank.to_string()),
        ("NPROC_PER_NODE", processes.to_string()),
    ];
    if nodes > 1 {
        list.push(("WORLD_SIZE", (nodes * processes).to_string()));
        list.extend(addresses(assignment).first().map(|first| ("MASTER_ADDR", (*first).to_owned())));
        list.extend(assignment.port.map(|port| ("MASTER_PORT", port.to_string())));
    }
    list
}

/// The hosts by rank; where one is not known, the nodes' names have to do.
fn addresses(assignment: &Assignment) -> Vec<&str> {
    if assignment.addresses.len() == assignment.nodes.len() {
        return assignment.addresses.iter().map(String::as_str).collect();
    }
    assignment.nodes.iter().map(|name| name.as_str()).collect()
}

/// The hosts of an attempt in the form that mpirun and DeepSpeed read.
pub(super) fn hosts(assignment: &Assignment) -> String {
    let line = |host: &str| format!("{host} slots={}\n", assignment.gpus.len().max(1));
    addresses(assignment).into_iter().map(line).collect()
}

/// Reads a secret: a file of that name, which must belong to the job's account. It never enters a log or a message.
fn secret(config: &Config, name: &str, account: &Found) -> Result<Vec<u8>, LaunchError> {
    let refused =
        || LaunchError::job(127, format!("the account {} has no secret {name} on this node", account.name));
    read_owned(&config.secrets().join(name), account).ok_or_else(refused)
}

fn read_owned(path: &Path, account: &Found) -> Option<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let data = file.metadata().ok()?;
    let owner = account.drop.as_ref().map_or_else(|| nix::unistd::geteuid().as_raw(), |drop| drop.uid);
    if !data.is_file() || data.uid() != owner || data.len() > SECRET_MAX {
        return None;
    }
    let mut value = Vec::new();
    file.take(SECRET_MAX).read_to_end(&mut value).ok()?;
    while value.last() == Some(&b'\n') {
        value.pop();
    }
    (!value.contains(&0)).then_some(value)
}
