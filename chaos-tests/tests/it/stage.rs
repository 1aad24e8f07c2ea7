//! The cluster that the laws share.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use chaos_tests::lab::{Lab, Plan};
use libtest_mimic::Trial;
use xtask::ClusterLock;

/// The cluster, between two laws. A law that fails leaves none, and the next one begins with a new cluster; so does one
/// that wants another kind.
static STAGE: Mutex<Option<Stage>> = Mutex::new(None);

struct Stage {
    // Dropped in this order: the place is given back when the cluster is gone.
    lab: Lab,
    _lock: ClusterLock,
    kind: Kind,
}

/// What kind of cluster a law is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With the times that people have, but for a few.
    Usual,
    /// Without dates: what comes free goes to whoever is first then, to nobody by an earlier promise.
    Undated,
    /// Where windows and graces are seconds.
    Contended,
    /// Whose replicas' machines restart: who vouches for the time is asked for as long as a test can wait.
    Clocks,
    /// One replica at first, and as many as a law leaves.
    Moving,
}

/// Makes a test of a law.
pub fn law(kind: Kind, name: &str, law: fn(&mut Lab) -> Result<()>) -> Trial {
    Trial::test(name.to_owned(), move || {
        let mut slot = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stage = slot.take().filter(|stage| stage.kind == kind).unwrap_or_else(|| start(kind));
        // A failure has to unwind through here: the cluster then tells its logs and keeps its folder.
        stage.lab.settle().unwrap_or_else(|error| panic!("the cluster does not come to rest: {error:?}"));
        law(&mut stage.lab).unwrap_or_else(|error| panic!("{error:?}"));
        stage.lab.check();
        *slot = Some(stage);
        Ok(())
    })
}

/// Makes a test of a law that brings what it needs itself.
pub fn alone(name: &str, law: fn() -> Result<()>) -> Trial {
    Trial::test(name.to_owned(), move || {
        clear();
        law().unwrap_or_else(|error| panic!("{error:?}"));
        Ok(())
    })
}

fn start(kind: Kind) -> Stage {
    let lock = xtask::cluster_lock();
    let plan = match kind {
        Kind::Usual => Plan::usual(),
        Kind::Undated => Plan::usual().with_setting("dates=no"),
        Kind::Contended => Plan::contended(),
        Kind::Clocks => Plan { server_keys: vec!["witness_wait_ms = 3000".into()], ..Plan::usual() },
        Kind::Moving => Plan::moving(),
    };
    let lab = Lab::start(plan).unwrap_or_else(|error| panic!("no cluster: {error:?}"));
    Stage { lab, _lock: lock, kind }
}

/// Ends the cluster.
pub fn clear() {
    drop(STAGE.lock().unwrap_or_else(PoisonError::into_inner).take());
}
