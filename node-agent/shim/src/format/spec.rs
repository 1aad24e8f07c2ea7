//! What a shim starts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::fields::{Error, Fields, Writer};

/// The account that a job runs as, in numbers: the shim looks nothing up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Main group id.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
}

/// What to start, as whom, and with which limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Job number.
    pub job: u32,
    /// Attempt number.
    pub attempt: u32,
    /// Rank in the gang.
    pub rank: u16,
    /// Value of [`MARK_VARIABLE`](super::MARK_VARIABLE) in every process of this attempt on this node.
    pub mark: String,
    /// UUIDs of the GPUs.
    pub gpus: Vec<String>,
    /// Program and arguments; with a script, only its arguments.
    pub argv: Vec<Vec<u8>>,
    /// A script, run as a program of its own (or by `/bin/sh` if it names no interpreter).
    pub script: Option<Vec<u8>>,
    /// The whole environment, `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Account to drop to; `None` runs as the shim's own.
    pub account: Option<Account>,
    /// Working directory.
    pub directory: Vec<u8>,
    /// File for both streams; `None` keeps them in the attempt's own directory.
    pub output: Option<Vec<u8>>,
    /// Time limit from the start, in ms.
    pub time_limit_ms: Option<u64>,
    /// Time from the notice to the time limit, in ms.
    pub grace_ms: u64,
    /// Time from TERM to KILL at the time limit, in ms.
    pub limit_kill_ms: u64,
    /// Signal of a notice.
    pub signal: i32,
    /// Which files say that a checkpoint is complete, under the working directory.
    pub checkpoint_glob: Option<Vec<u8>>,
    /// The cgroup v2 directory that the main process enters, where there is one.
    pub cgroup: Option<Vec<u8>>,
    /// From the first KILL to the words that something can't be ended, in ms.
    pub unkillable_ms: u64,
}

/// [`Spec::unkillable_ms`] of a spec that doesn't say it.
const UNKILLABLE_MS: u64 = 60_000;

impl Spec {
    /// Its group as a path.
    pub fn group(&self) -> Option<&Path> {
        self.cgroup.as_deref().map(|group| Path::new(OsStr::from_bytes(group)))
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.show("job", self.job);
        out.show("attempt", self.attempt);
        out.show("rank", self.rank);
        out.put("mark", self.mark.as_bytes());
        self.gpus.iter().for_each(|gpu| out.put("gpu", gpu.as_bytes()));
        self.argv.iter().for_each(|argument| out.put("argv", argument));
        if let Some(script) = &self.script {
            out.put("script", script);
        }
        self.env.iter().for_each(|entry| out.put("env", entry));
        if let Some(account) = &self.account {
            out.show("uid", account.uid);
            out.show("gid", account.gid);
            account.groups.iter().for_each(|group| out.show("group", group));
        }
        out.put("directory", &self.directory);
        if let Some(output) = &self.output {
            out.put("output", output);
        }
        out.maybe("time_limit_ms", self.time_limit_ms);
        out.show("grace_ms", self.grace_ms);
        out.show("limit_kill_ms", self.limit_kill_ms);
        out.show("signal", self.signal);
        for (key, value) in [("checkpoint_glob", &self.checkpoint_glob), ("cgroup", &self.cgroup)] {
            if let Some(value) = value {
                out.put(key, value);
            }
        }
        out.show("unkillable_ms", self.unkillable_ms);
        out.finish()
    }

    /// Decodes the file.
    ///
    /// # Errors
    ///
    /// The file isn't whole, or a field is missing or wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fields = Fields::parse(bytes)?;
        let list = |key| fields.all(key).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|_| Error::Invalid("gpu"));
        Ok(Self {
            job: fields.number("job")?,
            attempt: fields.number("attempt")?,
            rank: fields.number("rank")?,
            mark: fields.text("mark")?,
            gpus: fields.all("gpu").map(text).collect::<Result<_, _>>()?,
            argv: list("argv"),
            script: fields.get("script").map(<[u8]>::to_vec),
            env: list("env"),
            account: account(&fields)?,
            directory: fields.get("directory").ok_or(Error::Missing("directory"))?.to_vec(),
            output: fields.get("output").map(<[u8]>::to_vec),
            time_limit_ms: fields.optional("time_limit_ms")?,
            grace_ms: fields.number("grace_ms")?,
            limit_kill_ms: fields.number("limit_kill_ms")?,
            signal: fields.number("signal")?,
            checkpoint_glob: fields.get("checkpoint_glob").map(<[u8]>::to_vec),
            cgroup: fields.get("cgroup").map(<[u8]>::to_vec),
            unkillable_ms: fields.optional("unkillable_ms")?.unwrap_or(UNKILLABLE_MS),
        })
    }
}

fn account(fields: &Fields) -> Result<Option<Account>, Error> {
    let Some(uid) = fields.optional("uid")? else { return Ok(None) };
    let group = |value: &[u8]| {
        std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(Error::Invalid("group"))
    };
    let groups = fields.all("group").map(group).collect::<Result<_, _>>()?;
    Ok(Some(Account { uid, gid: fields.number("gid")?, groups }))
}

#[cfg(test)]
mod tests {
    use super::{Account, Spec};

    #[test]
    fn a_spec_survives_its_file() {
        let spec = Spec {
            job: 4190,
            attempt: 3,
            rank: 1,
            mark: "a.b".to_owned(),
            gpus: vec!["GPU-1".to_owned(), "GPU-2".to_owned()],
            argv: vec![b"python".to_vec(), b"".to_vec(), b"x=\xff\n".to_vec()],
            script: Some(b"#!/bin/sh\nexit 1\n".to_vec()),
            env: vec![b"A=b=c".to_vec()],
            account: Some(Account { uid: 1000, gid: 100, groups: vec![100, 27] }),
            directory: b"/tmp".to_vec(),
            output: None,
            time_limit_ms: Some(5),
            grace_ms: 1,
            limit_kill_ms: 2,
            signal: 10,
            checkpoint_glob: Some(b"c/*".to_vec()),
            cgroup: None,
            unkillable_ms: 3,
        };
        assert_eq!(Spec::decode(&spec.encode()), Ok(spec));
    }
}
