//! The catalogue: what a history directory must hold, so that a file that went missing, or an older copy of one, is
//! found out.

use std::fs;
use std::io;
use std::path::Path;

use prost::Message as _;
use proto::history::v1 as wire;
use scheduler_core::id::ClusterId;

use super::error::Error;
use super::files;
use super::shape::{Damage, Range, Segment, Shape};

const NAME: &str = "catalogue";
const MAGIC: [u8; 8] = *b"BURSCATL";
const DIGEST: usize = 32;

/// What was durable of the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) from: u64,
    /// The first index that was not durable.
    pub(super) next: u64,
    pub(super) bytes: u64,
}

/// A catalogue that was read.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub(super) cluster: Option<ClusterId>,
    pub(super) floor: u64,
    pub(super) segments: Vec<Segment>,
    pub(super) tail: Option<Claim>,
    pub(super) unwritten: Vec<Range>,
    pub(super) damage: Vec<Damage>,
}

/// Writes what is here; durable on return. The tail must be durable up to `claim`.
pub(super) fn write(dir: &Path, shape: &Shape, claim: Claim) -> Result<(), Error> {
    let message = wire::Catalogue {
        cluster: shape.cluster.map(|cluster| cluster.as_bytes().to_vec()).unwrap_or_default(),
        floor: shape.floor,
        segments: shape.segments.values().map(segment).collect(),
        tail: Some(wire::Tail { from: claim.from, next: claim.next, bytes: claim.bytes }),
        unwritten: shape.unwritten.iter().map(|range| range.to_wire()).collect(),
        damage: shape
            .damage
            .iter()
            .map(|damage| wire::Damage { range: Some(damage.range.to_wire()), what: damage.what.clone() })
            .collect(),
    };
    let mut content = MAGIC.to_vec();
    content.extend(message.encode_to_vec());
    let digest = blake3::hash(&content);
    content.extend(digest.as_bytes());
    files::replace(dir, NAME, &content)
}

/// Reads the catalogue; none if there is none.
pub(super) fn read(dir: &Path) -> Result<Option<Catalogue>, Error> {
    let path = dir.join(NAME);
    let content = match fs::read(&path) {
        Ok(content) => content,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::io("read", path)(cause)),
    };
    let damaged = |what: &str| Error::damaged(&path, what);
    let cut = content.len().checked_sub(DIGEST).filter(|cut| *cut >= MAGIC.len());
    let (body, digest) = content.split_at(cut.ok_or_else(|| damaged("it is cut short"))?);
    if blake3::hash(body).as_bytes() != digest || body[..MAGIC.len()] != MAGIC {
        return Err(damaged("its digest does not match its content"));
    }
    let message =
        wire::Catalogue::decode(&body[MAGIC.len()..]).map_err(|_| damaged("it cannot be decoded"))?;
    of_wire(message).map(Some).ok_or_else(|| damaged("it contradicts itself"))
}

/// Sets a catalogue that cannot be read aside.
pub(super) fn set_aside(dir: &Path) -> Result<(), Error> {
    files::set_aside(dir, &dir.join(NAME))
}

fn segment(segment: &Segment) -> wire::Segment {
    wire::Segment {
        range: Some(segment.range.to_wire()),
        records: segment.records,
        first_ms: segment.first_ms,
        last_ms: segment.last_ms,
        bytes: segment.bytes,
        digest: segment.digest.to_vec(),
        job_min: segment.jobs.map(|(min, _)| min),
        job_max: segment.jobs.map(|(_, max)| max),
    }
}

fn of_wire(m: wire::Catalogue) -> Option<Catalogue> {
    let segment = |m: wire::Segment| {
        Some(Segment {
            range: Range::of_wire(m.range?),
            records: m.records,
            first_ms: m.first_ms,
            last_ms: m.last_ms,
            bytes: m.bytes,
            digest: m.digest.try_into().ok()?,
            jobs: m.job_min.zip(m.job_max),
        })
    };
    let damage = |m: wire::Damage| Some(Damage { range: Range::of_wire(m.range?), what: m.what });
    Some(Catalogue {
        cluster: if m.cluster.is_empty() { None } else { Some(ClusterId::from_slice(&m.cluster)?) },
        floor: m.floor,
        segments: m.segments.into_iter().map(segment).collect::<Option<_>>()?,
        tail: m.tail.map(|tail| Claim { from: tail.from, next: tail.next, bytes: tail.bytes }),
        unwritten: m.unwritten.into_iter().map(Range::of_wire).collect(),
        damage: m.damage.into_iter().map(damage).collect::<Option<_>>()?,
    })
}
