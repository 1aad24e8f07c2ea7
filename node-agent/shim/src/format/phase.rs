//! Where a live attempt stands.

use super::fields::{Error, Fields, Writer};

/// What the shim is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The main process runs.
    Running,
    /// The job has its notice.
    Noticing,
    /// TERM was sent.
    Terminating,
    /// KILL was sent.
    Killing,
}

/// Where an attempt stands. Times are ms of the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// What the shim is doing.
    pub stage: Stage,
    /// When the main process's program started.
    pub started_ms: u64,
    /// When the shim first saw the stop: the start of the grace, also for a nurse that takes over.
    pub stop_seen_ms: Option<u64>,
    /// True once the job got the notice of a stop (not that of its time limit).
    pub noticed: bool,
}

impl Stage {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Noticing => "noticing",
            Self::Terminating => "terminating",
            Self::Killing => "killing",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Running, Self::Noticing, Self::Terminating, Self::Killing]
            .into_iter()
            .find(|stage| stage.name() == name)
    }
}

impl Phase {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.show("stage", self.stage.name());
        out.show("started_ms", self.started_ms);
        out.maybe("stop_seen_ms", self.stop_seen_ms);
        out.show("noticed", u8::from(self.noticed));
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
            stage: Stage::named(&fields.text("stage")?).ok_or(Error::Invalid("stage"))?,
            started_ms: fields.number("started_ms")?,
            stop_seen_ms: fields.optional("stop_seen_ms")?,
            noticed: fields.number::<u8>("noticed")? != 0,
        })
    }
}
