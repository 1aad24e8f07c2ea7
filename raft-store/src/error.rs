//! What can go wrong, an enum a call.

/// Errors of opening a replica.
pub mod open {
    use std::io;
    use std::path::PathBuf;

    use thiserror::Error;

    use crate::{BoxError, ReplicaId};

    /// Why a replica could not be opened.
    #[derive(Debug, Error)]
    pub enum Error {
        /// Another process holds the data directory.
        #[error(
            "the data directory {path} is in use by process {holder}: two replicas never share one; stop that \
             process or give this one its own directory"
        )]
        Locked {
            /// The directory.
            path: PathBuf,
            /// The other process's number, as it left it there.
            holder: String,
        },
        /// The data is not what this replica once wrote.
        #[error(
            "the data in {path} is damaged: {what}. This replica must not vote, since it may have forgotten what \
             it promised; the others go on without it (`bursar cluster status`). It comes back under a new number, \
             with `{rebuild}` on this machine, which keeps the old directory aside",
            rebuild = crate::fatal::REBUILD
        )]
        Damaged {
            /// The directory.
            path: PathBuf,
            /// What is wrong.
            what: String,
        },
        /// The replica was removed from its cluster.
        #[error("replica {replica}: {}", crate::fatal::removed(path, *by))]
        Removed {
            /// The directory.
            path: PathBuf,
            /// Its number, which is never given again.
            replica: ReplicaId,
            /// The entry that removed it.
            by: u64,
        },
        /// The directory belongs to another replica than the configured one.
        #[error("the data directory {path} belongs to replica {found}, not to replica {configured}")]
        OtherReplica {
            /// The directory.
            path: PathBuf,
            /// Whose it is.
            found: ReplicaId,
            /// Whose it was said to be.
            configured: ReplicaId,
        },
        /// The file system refused.
        #[error("failed to {doing} in {path}")]
        Io {
            /// What was being done.
            doing: &'static str,
            /// The directory.
            path: PathBuf,
            /// What the file system said.
            #[source]
            cause: io::Error,
        },
        /// The consensus library could not start from the stored state.
        #[error("failed to start the replica from {path}")]
        Start {
            /// The directory.
            path: PathBuf,
            /// What it said.
            #[source]
            cause: BoxError,
        },
    }
}

/// Errors of founding a cluster, or of joining one.
pub mod found {
    use thiserror::Error;

    use crate::{BoxError, ClusterId, ReplicaId, open};

    /// Why a cluster could not be founded, or a replica did not join it.
    #[derive(Debug, Error)]
    pub enum Error {
        /// The list of members is not one that a cluster can have.
        #[error("a cluster cannot have these members: {0}")]
        Members(&'static str),
        /// This replica is already of a cluster.
        #[error("this replica already belongs to cluster {cluster} as replica {replica}")]
        Taken {
            /// The cluster.
            cluster: ClusterId,
            /// Its number there.
            replica: ReplicaId,
        },
        /// The cluster has already been founded; nothing was changed.
        #[error("this cluster has already been founded")]
        AlreadyFounded,
        /// Another number was configured for this replica.
        #[error("this replica is configured as {configured} and cannot become {wanted}")]
        OtherReplica {
            /// The configured number.
            configured: ReplicaId,
            /// The number it was to have.
            wanted: ReplicaId,
        },
        /// A member could not be told.
        #[error("failed to invite replica {id} at {peer_addr}; founding can be tried again")]
        Invite {
            /// Which.
            id: ReplicaId,
            /// Where.
            peer_addr: String,
            /// What happened.
            #[source]
            cause: BoxError,
        },
        /// This replica could not start.
        #[error("failed to start as a member of the cluster")]
        Start(#[source] Box<open::Error>),
        /// The first entry could not be written.
        #[error("failed to write the first members into the log")]
        Initialize(#[source] BoxError),
        /// The replica is stopping.
        #[error("the replica is stopping")]
        Stopped,
    }
}

/// Errors of proposing an entry.
pub mod propose {
    use thiserror::Error;

    use crate::Member;

    /// Why a proposal has no answer.
    #[derive(Debug, Clone, PartialEq, Eq, Error)]
    pub enum Error {
        /// Nothing was done: another replica leads, or none does at present.
        #[error("this replica does not lead")]
        NotLeader {
            /// Who leads, if known.
            leader: Option<Member>,
        },
        /// Nothing was done: too much waits for the disk or for other replicas.
        #[error("too many proposals are waiting")]
        Overloaded,
        /// Nothing was done: this replica's disk has too little room. It goes on by itself once there is more.
        #[error("the disk of the leading replica is {}full", if *is_scarce { "nearly " } else { "" })]
        DiskFull {
            /// Whether there is still room for [`Replica::propose_from_reserve`].
            ///
            /// [`Replica::propose_from_reserve`]: crate::Replica::propose_from_reserve
            is_scarce: bool,
        },
        /// Nothing was done: the entry is too large.
        #[error("an entry of {bytes} bytes is larger than {max}")]
        TooLarge {
            /// The entry's size.
            bytes: usize,
            /// The largest that is taken.
            max: usize,
        },
        /// The entry may be committed or may never be: leadership was lost before that was known.
        #[error("leadership was lost before it was known whether the entry is committed")]
        Unknown {
            /// Who leads now, if known.
            leader: Option<Member>,
        },
        /// The replica is stopping or was never a member; the entry may be committed or not.
        #[error("the replica has stopped")]
        Stopped,
    }
}

/// Errors of linearizable reads.
pub mod read {
    use thiserror::Error;

    use crate::Member;

    /// Why a read cannot be linearizable at present.
    #[derive(Debug, Clone, PartialEq, Eq, Error)]
    pub enum Error {
        /// No leader is known, or it could not be reached or confirmed by a quorum.
        #[error("no leader could be confirmed: {why}")]
        NoLeader {
            /// Who may lead, if known.
            leader: Option<Member>,
            /// What happened.
            why: String,
        },
        /// The machine has not applied far enough in time.
        #[error("the machine has not yet applied up to index {wanted}")]
        Behind {
            /// What the read needs.
            wanted: u64,
        },
        /// The replica is stopping, or was never a member.
        #[error("the replica has stopped")]
        Stopped,
    }
}

/// Errors of changing who is a member or who leads.
pub mod change {
    use thiserror::Error;

    use crate::{BoxError, Member, ReplicaId, found};

    /// Why a change was not made.
    #[derive(Debug, Error)]
    pub enum Error {
        /// Another replica leads: ask it.
        #[error("this replica does not lead")]
        NotLeader {
            /// Who leads, if known.
            leader: Option<Member>,
        },
        /// There is no such member.
        #[error("there is no replica {0}")]
        NoSuchMember(ReplicaId),
        /// It has no vote.
        #[error("replica {0} has no vote yet")]
        NoVote(ReplicaId),
        /// It was a member once, or belongs to another cluster.
        #[error("the replica at {peer_addr} {what}")]
        Taken {
            /// Where it is.
            peer_addr: String,
            /// Whose it is.
            what: String,
        },
        /// Nobody answers at the address.
        #[error("the replica at {peer_addr} does not answer: {why}")]
        Unreachable {
            /// Where it should be.
            peer_addr: String,
            /// What happened.
            why: String,
        },
        /// It has too much of the log to receive before it may vote.
        #[error("replica {id} is {behind} entries behind")]
        Behind {
            /// Which.
            id: ReplicaId,
            /// How far.
            behind: u64,
        },
        /// Too few of those that would vote afterwards are there: the change could never be decided.
        #[error("of the {voters} replicas that would vote, {alive} are there, and {needed} are needed")]
        NoMajority {
            /// How many would vote.
            voters: usize,
            /// How many of them answer.
            alive: usize,
            /// How many have to.
            needed: usize,
        },
        /// There are as many voters as there may be.
        #[error("a cluster has at most {0} members")]
        TooMany(usize),
        /// Removing it would leave no cluster.
        #[error("replica {0} is the only member")]
        LastMember(ReplicaId),
        /// The replica could not be told that it joins.
        #[error("failed to invite the replica")]
        Invite(#[source] found::Error),
        /// It did not take effect in time; it may still do so.
        #[error("the change has not taken effect yet")]
        Timeout,
        /// Raft refused.
        #[error("the change was refused")]
        Refused(#[source] BoxError),
        /// The replica is stopping, or was never a member.
        #[error("the replica has stopped")]
        Stopped,
    }
}
