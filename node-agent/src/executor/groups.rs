//! Where attempts get a cgroup v2 directory of their own: below the agent's own group, where this machine has such a tree and
//! the agent may write there.

use std::path::{Path, PathBuf};

use scheduler_core::agent::RankId;
use shim::cgroup;

/// The directory that all groups of agents lie in.
const NAME: &str = "bursar";

/// Finds the directory for groups, made now. None where there is no such tree, an old kernel's, or one that isn't ours.
pub(super) fn find() -> Option<PathBuf> {
    // Moving a process needs rights on the group that it comes from too: only root is sure to have them.
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let groups = home(&mounts, &own)?.join(NAME);
    let _ = std::fs::create_dir(&groups);
    let probe = groups.join(format!("probe.{}", std::process::id()));
    std::fs::create_dir(&probe).ok()?;
    let is_whole =
        std::fs::read_to_string(probe.join("cgroup.type")).is_ok_and(|kind| kind.trim() == "domain");
    let can_kill = std::fs::OpenOptions::new().write(true).open(probe.join("cgroup.kill")).is_ok();
    cgroup::remove(&probe);
    (is_whole && can_kill).then_some(groups)
}

/// The agent's own group in the v2 tree.
fn home(mounts: &str, own: &str) -> Option<PathBuf> {
    let mut lines = mounts.lines().map(|line| line.split(' '));
    let mount = lines.find_map(|mut line| {
        let (_device, path, kind) = (line.next()?, line.next()?, line.next()?);
        (kind == "cgroup2").then_some(path)
    })?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A path out of this namespace's root is nowhere that we can reach.
    let is_inside = path.starts_with('/') && !path.split('/').any(|part| part == "..");
    is_inside.then(|| Path::new(mount).join(path.trim_start_matches('/')))
}

/// Makes the group of a rank. None if that fails: then its process tree is what holds it together.
pub(super) fn make(groups: Option<&Path>, instance: &str, id: RankId) -> Option<PathBuf> {
    let group = groups?.join(format!("{instance}.{}.{}", id.attempt, id.rank));
    match std::fs::create_dir(&group) {
        Ok(()) => Some(group),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Some(group),
        Err(error) => {
            tracing::warn!(attempt = %id.attempt, %error, "an attempt gets no cgroup of its own");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::home;
    use std::path::Path;

    #[test]
    fn the_home_is_the_agents_own_group_in_the_second_tree() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let unit = "4:memory:/x\n0::/system.slice/bursar-agent.service\n";
        let expected = Path::new("/sys/fs/cgroup/unified/system.slice/bursar-agent.service");
        assert_eq!(home(hybrid, unit).as_deref(), Some(expected));
        assert_eq!(home(hybrid, "0::/\n").as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(home(hybrid, "0::/../other\n"), None);
        assert_eq!(home("tmpfs / tmpfs rw 0 0\n", "0::/\n"), None);
        assert_eq!(home(hybrid, "4:memory:/x\n"), None);
    }
}
