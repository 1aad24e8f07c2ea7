//! The account of a job, looked up on this node.

use std::ffi::CString;
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User, getgrouplist};
use shim::format::Account;

use super::launch::LaunchError;

/// An account as the node knows it.
pub(super) struct Found {
    /// Its name.
    pub name: String,
    /// Its home directory.
    pub home: PathBuf,
    /// Its numbers; `None` if the agent runs as it and there is nothing to drop.
    pub drop: Option<Account>,
}

/// Looks an account up, and says whether this agent may run a job as it.
pub(super) fn find(name: &str, allow_root_jobs: bool) -> Result<Found, LaunchError> {
    let node = |what: String| LaunchError::node(what);
    let user = User::from_name(name)
        .map_err(|error| node(format!("failed to look up the account {name}: {error}")))?;
    let user = user.ok_or_else(|| node(format!("this node has no account {name}")))?;
    if user.uid.is_root() && !allow_root_jobs {
        return Err(node(format!("the account {name} is uid 0, and allow_root_jobs is off")));
    }
    let own = Uid::effective();
    if user.uid == own {
        // Also as root: dropping to oneself changes nothing, and keeps groups that a container gave.
        return Ok(Found { name: user.name, home: user.dir, drop: None });
    }
    if !own.is_root() {
        return Err(node(format!("this agent is not root and runs jobs of uid {own} only, not of {name}")));
    }
    let groups =
        groups(&user).map_err(|error| node(format!("failed to list the groups of {name}: {error}")))?;
    let drop = Account { uid: user.uid.as_raw(), gid: user.gid.as_raw(), groups };
    Ok(Found { name: user.name, home: user.dir, drop: Some(drop) })
}

fn groups(user: &User) -> Result<Vec<u32>, nix::errno::Errno> {
    let name = CString::new(user.name.as_bytes()).map_err(|_| nix::errno::Errno::EINVAL)?;
    Ok(getgrouplist(&name, user.gid)?.into_iter().map(Gid::as_raw).collect())
}
