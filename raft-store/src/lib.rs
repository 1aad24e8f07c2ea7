//! A replicated log of opaque bytes: openraft over sled, with its own transport.
//!
//! ```text
//!  server ──propose, read_barrier, watch──► Replica ──► consensus (openraft, own workers)
//!                                             │            │            │
//!  listener ──► PeerService ◄── other         │        LogStore     MachineThread ──► Machine (the server's)
//!               replicas                      │            │            │
//!                                       identity, lock    sled `log`   SnapshotStore: sled `snap`
//! ```
//!
//! The crate knows nothing of what the bytes mean. No type of the consensus library is in a public signature,
//! on disk or on the wire.
//!
//! # Use
//!
//! ```no_run
//! # use raft_store::{Committed, Frozen, Machine, BoxError};
//! # struct M; struct F;
//! # impl Frozen for F { fn write(&self, _: &mut dyn std::io::Write) -> std::io::Result<()> { Ok(()) } }
//! # impl Machine for M {
//! #     fn apply(&mut self, e: &[Committed<'_>]) -> Vec<Vec<u8>> { e.iter().map(|_| vec![]).collect() }
//! #     fn advanced(&mut self, _: u64, _: u64) {}
//! #     fn freeze(&self) -> Box<dyn Frozen> { Box::new(F) }
//! #     fn install(&mut self, _: u64, _: u64, _: &mut dyn std::io::Read) -> Result<(), BoxError> { Ok(()) }
//! # }
//! use raft_store::{ClusterId, Config, Member, PeerSecret, Replica, ReplicaId, Timing};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = Config::new("/var/lib/bursar", PeerSecret::new([0; 32]));
//! config.timing = Timing::FAST;
//! let replica = Replica::open(config, M).await?;
//! // Mount it before founding or being invited: `Server::builder().tcp_nodelay(true).add_service(..)`. At the end
//! // call `replica.shutdown()` first: its calls then end, and the listener can be closed without breaking any.
//! let service = replica.service();
//! if !replica.is_initialised() {
//!     // `cluster init` on one replica only; the others are invited by it.
//!     let member = Member {
//!         id: ReplicaId::new(1),
//!         peer_addr: "127.0.0.1:7001".into(),
//!         client_addr: "127.0.0.1:7000".into(),
//!     };
//!     replica.found(ClusterId::new([7; 16]), ReplicaId::new(1), vec![member]).await?;
//! }
//! replica.watch().wait_for(|status| status.is_leader()).await?;
//! let answer = replica.propose(b"bytes".to_vec()).await?;
//! let applied = replica.read_barrier().await?;
//! assert!(applied >= answer.index);
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! - An answered proposal is on the disks of a quorum, behind a real `fdatasync`, and stays.
//! - A replica that comes back with less than it once had is found out at opening ([`open::Error::Damaged`]) and
//!   does not vote; nothing is skipped or repaired silently.
//! - The first failed write or sync of the log stops the process.
//! - A call that is meant for another cluster or replica, or lacks the secret, is refused.
//!
//! # Who must not
//!
//! Nothing here reads a wall clock, decides what an entry means, or retries a proposal: [`propose::Error`] says
//! whether an entry may still take effect, and the caller's request ids do the rest.

mod config;
mod disk;
mod engine;
mod envelope;
mod error;
mod fatal;
#[cfg(test)]
mod ground;
mod identity;
mod inspect;
mod log;
mod machine;
mod raft;
mod record;
mod remembered;
mod removal;
mod replica;
mod room;
mod snapshot;
mod standing;
mod status;
mod stores;
mod transport;

pub use self::config::{Config, Member, PeerSecret, Timing};
pub use self::disk::{DiskUse, FreeDisk, forget_cached};
pub use self::error::{change, found, open, propose, read};
pub use self::identity::{ClusterId, Identity, ReplicaId};
pub use self::inspect::{Inspection, holder, identity, inspect};
pub use self::machine::{BoxError, Committed, Frozen, Machine};
pub use self::replica::{Answer, Applied, Joining, Replica};
pub use self::status::{Peer, Role, Sending, Status};
pub use self::transport::PeerService;
