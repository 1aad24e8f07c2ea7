//! Opening a history directory: what the catalogue names must be there as it says; the end of the tail may be torn.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use scheduler_core::id::ClusterId;

use super::catalogue::{self, Catalogue, Claim};
use super::error::Error;
use super::files::{self, Role};
use super::segment::{self, HEADER};
use super::shape::{Damage, Range, Segment, Shape};
use super::tail::{Tail, length};

/// Reads what is in a directory, made if it is not there.
pub(super) fn open(dir: &Path) -> Result<Shape, Error> {
    files::make_dir(dir)?;
    raft_store::forget_cached(dir);
    let mut shape = Shape::default();
    let catalogue = match catalogue::read(dir) {
        Ok(found) => found.unwrap_or_default(),
        Err(cause @ Error::Damaged { .. }) => {
            tracing::error!(cause = cause.report(), "history's catalogue is made anew from its segments");
            catalogue::set_aside(dir)?;
            shape.touch();
            Catalogue::default()
        }
        Err(cause) => return Err(cause),
    };
    (shape.cluster, shape.floor) = (catalogue.cluster, catalogue.floor);
    (shape.unwritten, shape.damage) = (catalogue.unwritten, catalogue.damage);
    let found = files::list(dir)?;
    let mut listed = BTreeSet::new();
    for line in catalogue.segments {
        listed.insert(line.range.from);
        take_listed(dir, &mut shape, line)?;
    }
    for (from, _) in found.iter().filter(|(from, role)| *role == Role::Sealed && !listed.contains(from)) {
        take_unlisted(dir, &mut shape, *from)?;
    }
    let open = found.iter().filter(|(_, role)| *role == Role::Open).map(|(from, _)| *from).collect();
    take_tail(dir, &mut shape, catalogue.tail, open)?;
    shape.forget_healed();
    Ok(shape)
}

/// Takes a segment that the catalogue names.
fn take_listed(dir: &Path, shape: &mut Shape, line: Segment) -> Result<(), Error> {
    let path = files::path(dir, line.range.from, Role::Sealed);
    let why = match files::open(&path)? {
        None => "its file is missing".to_owned(),
        Some(file) => match segment::map(&path, &file, shape.cluster, line.range.from) {
            Ok(map) if map.segment == line => {
                shape.segments.insert(line.range.from, line);
                return Ok(());
            }
            Ok(_) => "its file is another than the catalogue names, as an older copy is".to_owned(),
            Err(cause) => cause.report(),
        },
    };
    salvage(dir, shape, &line, &why)
}

/// Takes a segment that the catalogue does not name: sealed just before a stop, or left over.
fn take_unlisted(dir: &Path, shape: &mut Shape, from: u64) -> Result<(), Error> {
    let path = files::path(dir, from, Role::Sealed);
    let Some(file) = files::open(&path)? else { return Ok(()) };
    let found = segment::map(&path, &file, shape.cluster, from).and_then(|map| {
        verify(&path, map.end, &map.segment)?;
        Ok(map.segment)
    });
    shape.touch();
    match found {
        Ok(found) if found.range.through < shape.floor => files::remove(&path),
        Ok(found) if shape.segments.values().any(|other| other.range.and(found.range).is_some()) => {
            files::set_aside(dir, &path)
        }
        Ok(found) => {
            if shape.cluster.is_none() {
                shape.cluster = cluster_of(&path)?;
            }
            shape.segments.insert(from, found);
            Ok(())
        }
        Err(cause) => {
            tracing::error!(
                cause = cause.report(),
                "a segment of history that no catalogue names is set aside"
            );
            files::set_aside(dir, &path)
        }
    }
}

fn cluster_of(path: &Path) -> Result<Option<ClusterId>, Error> {
    let content = fs::read(path).map_err(Error::io("read", path))?;
    Ok(content.get(12..28).and_then(ClusterId::from_slice))
}

/// Reads all frames of a segment and compares their digest.
pub(super) fn verify(path: &Path, end: u64, segment: &Segment) -> Result<(), Error> {
    let content = fs::read(path).map_err(Error::io("read", path))?;
    let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let frames = content.get(at(HEADER)..at(end)).ok_or_else(|| Error::damaged(path, "it is cut short"))?;
    if *blake3::hash(frames).as_bytes() != segment.digest {
        return Err(Error::damaged(path, "its digest does not match its content"));
    }
    Ok(())
}

fn take_tail(dir: &Path, shape: &mut Shape, claim: Option<Claim>, open: Vec<u64>) -> Result<(), Error> {
    let sealed_next = shape.segments.values().map(|segment| segment.range.through + 1).max();
    let (newest, older) = match open.split_last() {
        Some((newest, older)) => (Some(*newest), older.to_vec()),
        None => (None, Vec::new()),
    };
    let claimed = claim.filter(|claim| !shape.segments.contains_key(&claim.from));
    let mut tail = Tail::at(sealed_next.unwrap_or(shape.floor).max(shape.floor));
    let newest = newest.filter(|from| sealed_next.is_none_or(|next| *from >= next));
    match (newest, claimed) {
        (Some(from), claimed) => {
            let same = claimed.filter(|claim| claim.from == from);
            if let Some(claim) = claimed.filter(|claim| claim.from != from) {
                missing(shape, claim);
            }
            tail = read_tail(dir, shape, from, same)?;
        }
        (None, Some(claim)) if claim.bytes == 0 && claim.from >= tail.next => {
            tail = Tail { next: claim.next, durable_next: claim.next, ..Tail::at(claim.from) };
        }
        (None, Some(claim)) => {
            missing(shape, claim);
            tail = Tail::at(tail.next.max(claim.next));
        }
        (None, None) => {}
    }
    shape.tail = tail;
    for from in older.into_iter().filter(|from| Some(*from) != newest) {
        let path = files::path(dir, from, Role::Open);
        tracing::error!(path = %path.display(), "a part of history that was left over is set aside");
        files::set_aside(dir, &path)?;
    }
    Ok(())
}

fn missing(shape: &mut Shape, claim: Claim) {
    if claim.next > claim.from {
        let range = Range::new(claim.from, claim.next - 1);
        note(shape, range, "the file that was being written is missing");
    }
}

fn note(shape: &mut Shape, range: Range, what: &str) {
    tracing::error!(from = range.from, through = range.through, what, "history is damaged here");
    shape.damage.push(Damage { range, what: what.to_owned() });
    shape.touch();
}

/// Reads the tail. What is torn off behind its claim is cut away: the log writes it again.
fn read_tail(dir: &Path, shape: &mut Shape, from: u64, claim: Option<Claim>) -> Result<Tail, Error> {
    let path = files::path(dir, from, Role::Open);
    let content = fs::read(&path).map_err(Error::io("read", &path))?;
    let next = claim.map_or(from, |claim| claim.next);
    let header = segment::check_header(&content, shape.cluster, from);
    let walk = if header.is_ok() { segment::walk(&content) } else { segment::Walk::default() };
    let run = walk.runs.first().map(Vec::as_slice).unwrap_or_default();
    let begins = usize::try_from(HEADER).expect("a small number");
    let is_first = run.first().is_none_or(|(_, at)| at.start == begins);
    let good = if is_first { run.last().map_or(begins, |(_, at)| at.end) } else { begins };
    let good = if header.is_ok() { length(good) } else { 0 };
    if good < claim.map_or(0, |claim| claim.bytes) {
        let why = header.err().unwrap_or_else(|| "what was durable of it is not there any more".to_owned());
        let line = Segment {
            range: Range::new(from, next.saturating_sub(1).max(from)),
            records: 0,
            first_ms: 0,
            last_ms: 0,
            bytes: 0,
            digest: [0; 32],
            jobs: None,
        };
        salvage_file(dir, shape, &line, (&path, &content), &why)?;
        return Ok(Tail::at(next));
    }
    let mut tail = Tail::at(from);
    if good == 0 {
        // Nothing of it was ever durable, its header neither.
        files::remove(&path)?;
    } else {
        shape.cluster = shape.cluster.or_else(|| header.ok());
        for (_, at) in if is_first { run } else { &[] } {
            let frames = content.get(at.clone()).unwrap_or_default();
            tail.push_frames(frames).map_err(|cause| Error::damaged(&path, cause.to_string()))?;
        }
        tail.bytes = good;
        cut(&path, good, length(content.len()))?;
    }
    tail.next = tail.next.max(next);
    tail.durable_next = tail.next;
    shape.touch();
    Ok(tail)
}

fn cut(path: &Path, good: u64, bytes: u64) -> Result<(), Error> {
    let file = files::open_or_make(path)?;
    if good < bytes {
        let torn = bytes - good;
        tracing::warn!(path = %path.display(), torn, "history ends with a torn record; the log writes it again");
        file.set_len(good).map_err(Error::io("cut", path))?;
    }
    file.sync_all().map_err(Error::io("sync", path))
}

/// Sets a segment aside and keeps what is good in it. The rest is a hole.
pub(super) fn salvage(dir: &Path, shape: &mut Shape, line: &Segment, why: &str) -> Result<(), Error> {
    let path = files::path(dir, line.range.from, Role::Sealed);
    match fs::read(&path) {
        Ok(content) => salvage_file(dir, shape, line, (&path, &content), why),
        Err(_) => {
            shape.segments.remove(&line.range.from);
            note(shape, line.range, why);
            if path.exists() { files::set_aside(dir, &path) } else { Ok(()) }
        }
    }
}

fn salvage_file(
    dir: &Path,
    shape: &mut Shape,
    line: &Segment,
    (path, content): (&Path, &[u8]),
    why: &str,
) -> Result<(), Error> {
    note(shape, line.range, why);
    shape.segments.remove(&line.range.from);
    let cluster = segment::check_header(content, shape.cluster, line.range.from);
    // What is of another control plane has nothing for us.
    let walk = if cluster.is_ok() { segment::walk(content) } else { segment::Walk::default() };
    files::set_aside(dir, path)?;
    let Ok(cluster) = cluster else { return Ok(()) };
    for run in walk.runs.iter().filter(|run| !run.is_empty()) {
        let (Some((first, at)), Some((last, end))) = (run.first(), run.last()) else { continue };
        let frames = content.get(at.start..end.end).unwrap_or_default();
        let is_first = length(at.start) == HEADER;
        let from = if is_first { line.range.from } else { *first };
        let is_whole = is_first && *blake3::hash(frames).as_bytes() == line.digest;
        let through = if is_whole { line.range.through } else { *last };
        let range = Range::new(from, through);
        let entries = run.iter().filter_map(|(_, at)| content.get(at.clone()));
        let kept = build(dir, cluster, range, entries)?;
        shape.segments.insert(range.from, kept);
    }
    Ok(())
}

/// Writes a sealed segment of whole entries; durable on return.
pub(super) fn build<'a>(
    dir: &Path,
    cluster: ClusterId,
    range: Range,
    entries: impl Iterator<Item = &'a [u8]>,
) -> Result<Segment, Error> {
    let path = files::path(dir, range.from, Role::Sealed);
    let mut content = segment::header(cluster, range.from);
    let mut tail = Tail::at(range.from);
    for frames in entries {
        tail.push_frames(frames).map_err(|cause| Error::damaged(&path, cause.to_string()))?;
        content.extend(frames);
    }
    tail.next = range.through + 1;
    let (end, segment) = segment::close(&tail).ok_or_else(|| Error::damaged(&path, "it would be empty"))?;
    content.extend(end);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    files::replace(dir, name, &content)?;
    Ok(segment)
}
