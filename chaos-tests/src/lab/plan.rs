//! What a lab is to be.

use std::path::PathBuf;

/// Times of the consensus among replicas, in ms.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How often a leader shows that it is there.
    pub heartbeat_ms: u64,
    /// The shortest silence before an election.
    pub election_min_ms: u64,
    /// The longest.
    pub election_max_ms: u64,
}

impl Timing {
    /// For tests: patient enough for a busy machine.
    pub const PATIENT: Self = Self { heartbeat_ms: 100, election_min_ms: 500, election_max_ms: 1_000 };
    /// What the failover figures are promised for.
    pub const FAST: Self = Self { heartbeat_ms: 50, election_min_ms: 150, election_max_ms: 300 };
}

/// What a lab is to be.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many replicas.
    pub replicas: usize,
    /// The GPUs of each node.
    pub nodes: Vec<u32>,
    /// Times among replicas.
    pub timing: Timing,
    /// Settings of the control plane, `NAME=DURATION`.
    pub settings: Vec<String>,
    /// The budget tree (YAML), below the root `lab`.
    pub tree: String,
    /// Principals besides the admin, all with the account that runs this.
    pub principals: Vec<String>,
    /// More keys of the replicas' configuration (TOML).
    pub server_keys: Vec<String>,
    /// The data directories of the first replicas; those of the others are in the lab's folder.
    pub data: Vec<PathBuf>,
}

impl Plan {
    /// Three replicas and two nodes with four GPUs; budgets `a` and `b` with 60 and 40 %, of `ana` and `bob`.
    pub fn usual() -> Self {
        let settings = [
            "beat=500ms",
            "silent_after=20s",
            "unreachable_after=90s",
            "cancel_grace=2s",
            "launch_backoff=300ms",
            "launch_backoff_max=2s",
        ];
        Self {
            replicas: 3,
            nodes: vec![4, 4],
            timing: Timing::PATIENT,
            settings: settings.map(String::from).to_vec(),
            tree: "name: lab\nowner: ops\nchildren:\n  \
                   - { name: a, share: 60, owner: ana, members: [ana] }\n  \
                   - name: b\n    share: 40\n    owner: bob\n    children:\n      \
                   - { name: x, share: 50, members: [bob] }\n      \
                   - { name: y, share: 50, members: [bob] }\n"
                .into(),
            principals: vec!["ana".into(), "bob".into()],
            server_keys: Vec::new(),
            data: Vec::new(),
        }
    }

    /// As it is, with one more setting.
    #[must_use]
    pub fn with_setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// As [`Plan::usual`], where a law about preemption takes seconds: a window of seconds, so that a budget that has
    /// everything is over its share within one, and graces as short.
    pub fn contended() -> Self {
        let settings = [
            "window=20s",
            "grace=2s",
            "free_grace=2s",
            "cancel_grace=2s",
            "rank_grace=2s",
            "start_limit=8s",
            "restart_guess=500ms",
            "free_backoff=500ms",
            "free_backoff_max=4s",
            "recheck=500ms",
            "beat=500ms",
            "silent_after=10s",
            "unreachable_after=12s",
            "launch_backoff=300ms",
            "launch_backoff_max=2s",
        ];
        Self { settings: settings.map(String::from).to_vec(), ..Self::usual() }
    }

    /// As [`Plan::usual`] with one replica and one node; snapshots are made often, so that who joins gets one.
    pub fn moving() -> Self {
        Self {
            replicas: 1,
            nodes: vec![4],
            server_keys: vec!["snapshot_every = 200".into()],
            ..Self::usual()
        }
    }

    /// One replica, no node.
    pub fn small() -> Self {
        Self { replicas: 1, nodes: Vec::new(), ..Self::usual() }
    }
}

/// Returns the name of the account that runs this.
///
/// # Panics
/// When the account has no name on this machine.
pub fn own_account() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let own = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let own = own.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()));
    own.map(|fields| fields[0].to_owned()).unwrap_or_else(|| panic!("/etc/passwd has no account {uid}"))
}
