//! What runs: the proof of identity that outlives agent and shim.

use super::fields::{Error, Fields, Writer};

/// A process, named so that a later one with the same pid isn't mistaken for it (within one boot).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

/// Who runs in an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Boot id; nothing here means anything in another boot.
    pub boot: String,
    /// The shim.
    pub shim: Identity,
    /// The main process.
    pub main: Identity,
    /// Inode of the main process's pidfd, where the kernel numbers them.
    pub pidfs_inode: Option<u64>,
    /// Time of the fork, in ms of the boot clock.
    pub forked_ms: u64,
}

impl Record {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.put("boot", self.boot.as_bytes());
        out.show("shim_pid", self.shim.pid);
        out.show("shim_start", self.shim.start);
        out.show("main_pid", self.main.pid);
        out.show("main_start", self.main.start);
        out.maybe("pidfs_inode", self.pidfs_inode);
        out.show("forked_ms", self.forked_ms);
        out.finish()
    }

    /// Decodes the file.
    ///
    /// # Errors
    ///
    /// The file isn't whole, or a field is missing or wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fields = Fields::parse(bytes)?;
        Ok(Self {
            boot: fields.text("boot")?,
            shim: Identity { pid: fields.number("shim_pid")?, start: fields.number("shim_start")? },
            main: Identity { pid: fields.number("main_pid")?, start: fields.number("main_start")? },
            pidfs_inode: fields.optional("pidfs_inode")?,
            forked_ms: fields.number("forked_ms")?,
        })
    }
}
