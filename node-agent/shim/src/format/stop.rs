//! A committed stop, as the agent hands it to the shim.

use super::fields::{Error, Fields, Writer};

/// A stop. The shim needs no list of kinds: what it does follows from the times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Generation of the order; a lower one never replaces a higher one.
    pub generation: u64,
    /// Why, in one word (`cancel`, `preempt`, `drain`), kept for the exit.
    pub kind: String,
    /// Why, for people; shown in the notice.
    pub reason: String,
    /// True if the job gets a notice and its signal before TERM.
    pub notice: bool,
    /// Signal of the notice.
    pub signal: i32,
    /// Time from the shim's seeing the stop to TERM, in ms.
    pub term_after_ms: u64,
    /// Time from the shim's seeing the stop to KILL, in ms.
    pub kill_after_ms: u64,
}

impl Stop {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.show("generation", self.generation);
        out.put("kind", self.kind.as_bytes());
        out.put("reason", self.reason.as_bytes());
        out.show("notice", u8::from(self.notice));
        out.show("signal", self.signal);
        out.show("term_after_ms", self.term_after_ms);
        out.show("kill_after_ms", self.kill_after_ms);
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
            generation: fields.number("generation")?,
            kind: fields.text("kind")?,
            reason: fields.text("reason")?,
            notice: fields.number::<u8>("notice")? != 0,
            signal: fields.number("signal")?,
            term_after_ms: fields.number("term_after_ms")?,
            kill_after_ms: fields.number("kill_after_ms")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Stop;

    #[test]
    fn a_stop_survives_its_file() {
        let stop = Stop {
            generation: 7,
            kind: "preempt".to_owned(),
            reason: "share of nlp/train".to_owned(),
            notice: true,
            signal: 10,
            term_after_ms: 110_000,
            kill_after_ms: 120_000,
        };
        assert_eq!(Stop::decode(&stop.encode()), Ok(stop));
    }
}
