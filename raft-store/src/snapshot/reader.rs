//! Reading a snapshot's content back, believing none of it unchecked.

use std::io::{self, Read};

use super::Handle;
use crate::envelope::{self, Kind};

/// Yields the content; the last read fails if the whole is not what was written.
pub(crate) struct SnapshotReader<'a> {
    handle: &'a Handle,
    next: u32,
    buffer: Vec<u8>,
    at: usize,
    bytes: u64,
    digest: blake3::Hasher,
}

impl<'a> SnapshotReader<'a> {
    pub(super) fn new(handle: &'a Handle) -> Self {
        Self { handle, next: 0, buffer: Vec::new(), at: 0, bytes: 0, digest: blake3::Hasher::new() }
    }

    fn load(&mut self) -> io::Result<bool> {
        let description = self.handle.description();
        if self.next == description.chunks {
            let digest = *self.digest.finalize().as_bytes();
            if self.bytes != description.bytes || digest != description.digest {
                return Err(invalid("the snapshot's content is not what was written"));
            }
            return Ok(false);
        }
        let sealed = self.handle.chunk(self.next)?;
        let (label, content) = envelope::open(Kind::Chunk, &sealed)
            .map_err(|error| invalid(&format!("chunk {}: {error}", self.next)))?;
        if label.first != u64::from(self.next) {
            return Err(invalid(&format!("chunk {} lies in the place of {}", label.first, self.next)));
        }
        self.digest.update(content);
        self.bytes += u64::try_from(content.len()).unwrap_or(u64::MAX);
        self.buffer.clear();
        self.buffer.extend_from_slice(content);
        self.at = 0;
        self.next += 1;
        Ok(true)
    }
}

impl Read for SnapshotReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.buffer.len() {
            if out.is_empty() || !self.load()? {
                return Ok(0);
            }
        }
        let taken = out.len().min(self.buffer.len() - self.at);
        out[..taken].copy_from_slice(&self.buffer[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
