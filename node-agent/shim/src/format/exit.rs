//! How an attempt's main process ended.

use super::fields::{Error, Fields, Writer};

/// How the main process ended. Unknown is a state of its own, never read as 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It exited.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Nobody could learn it; why.
    Unknown(String),
}

/// What a launch failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Making the process.
    Fork,
    /// Dropping to the account.
    Account,
    /// Entering the working directory.
    Directory,
    /// Opening the logs in the attempt's directory, or writing the script there.
    Logs,
    /// Opening the job's `output` file.
    Output,
    /// Executing the program.
    Program,
}

/// A launch that failed: no program of the job ever ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchFailure {
    /// What failed.
    pub step: Step,
    /// The system's error number.
    pub errno: i32,
}

/// The end of an attempt's main process. Times are ms of the boot clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Boot id that the times belong to.
    pub boot: String,
    /// How it ended.
    pub status: Status,
    /// Set if the launch failed.
    pub launch: Option<LaunchFailure>,
    /// When the program started.
    pub started_ms: Option<u64>,
    /// When the end was seen.
    pub ended_ms: u64,
    /// The kind of the stop that was on; `limit` for the time limit; `None` if it ended by itself.
    pub asked: Option<String>,
    /// Generation of that stop.
    pub generation: Option<u64>,
    /// True if the job got the notice of a stop before it ended.
    pub noticed: bool,
    /// When its newest checkpoint was heard of.
    pub saved_ms: Option<u64>,
    /// Processor time in user mode, in ms.
    pub user_ms: u64,
    /// Processor time in the kernel, in ms.
    pub system_ms: u64,
    /// Largest resident size of one process, in KiB.
    pub peak_rss_kib: u64,
    /// Who wrote this: `shim`, `nurse` or `agent`.
    pub writer: String,
}

impl Step {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Account => "account",
            Self::Directory => "directory",
            Self::Logs => "logs",
            Self::Output => "output",
            Self::Program => "program",
        }
    }

    /// All steps, in the order in which a launch takes them.
    pub const ALL: [Self; 6] =
        [Self::Fork, Self::Account, Self::Directory, Self::Logs, Self::Output, Self::Program];
}

impl Exit {
    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.put("boot", self.boot.as_bytes());
        match &self.status {
            Status::Code(code) => out.show("code", code),
            Status::Signal(signal) => out.show("signal", signal),
            Status::Unknown(why) => out.put("unknown", why.as_bytes()),
        }
        if let Some(launch) = self.launch {
            out.show("failed_step", launch.step.name());
            out.show("failed_errno", launch.errno);
        }
        out.maybe("started_ms", self.started_ms);
        out.show("ended_ms", self.ended_ms);
        out.maybe("asked", self.asked.as_deref());
        out.maybe("generation", self.generation);
        out.show("noticed", u8::from(self.noticed));
        out.maybe("saved_ms", self.saved_ms);
        out.show("user_ms", self.user_ms);
        out.show("system_ms", self.system_ms);
        out.show("peak_rss_kib", self.peak_rss_kib);
        out.put("writer", self.writer.as_bytes());
        out.finish()
    }

    /// Decodes the file.
    ///
    /// # Errors
    ///
    /// The file isn't whole, or a field is missing or wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let fields = Fields::parse(bytes)?;
        let optional_text =
            |key| if fields.get(key).is_none() { Ok(None) } else { fields.text(key).map(Some) };
        Ok(Self {
            boot: fields.text("boot")?,
            status: status(&fields)?,
            launch: launch(&fields)?,
            started_ms: fields.optional("started_ms")?,
            ended_ms: fields.number("ended_ms")?,
            asked: optional_text("asked")?,
            generation: fields.optional("generation")?,
            noticed: fields.number::<u8>("noticed")? != 0,
            saved_ms: fields.optional("saved_ms")?,
            user_ms: fields.number("user_ms")?,
            system_ms: fields.number("system_ms")?,
            peak_rss_kib: fields.number("peak_rss_kib")?,
            writer: fields.text("writer")?,
        })
    }
}

fn status(fields: &Fields) -> Result<Status, Error> {
    if let Some(code) = fields.optional("code")? {
        return Ok(Status::Code(code));
    }
    if let Some(signal) = fields.optional("signal")? {
        return Ok(Status::Signal(signal));
    }
    fields.text("unknown").map(Status::Unknown)
}

fn launch(fields: &Fields) -> Result<Option<LaunchFailure>, Error> {
    if fields.get("failed_step").is_none() {
        return Ok(None);
    }
    let name = fields.text("failed_step")?;
    let step = Step::ALL.into_iter().find(|step| step.name() == name).ok_or(Error::Invalid("failed_step"))?;
    Ok(Some(LaunchFailure { step, errno: fields.number("failed_errno")? }))
}

#[cfg(test)]
mod tests {
    use super::{Exit, LaunchFailure, Status, Step};

    #[test]
    fn the_three_kinds_of_exit_stay_apart_in_the_file() {
        for status in [Status::Code(0), Status::Signal(9), Status::Unknown("no shim".to_owned())] {
            let exit = Exit {
                boot: "b".to_owned(),
                status,
                launch: Some(LaunchFailure { step: Step::Program, errno: 2 }),
                started_ms: None,
                ended_ms: 5,
                asked: Some("cancel".to_owned()),
                generation: Some(2),
                noticed: true,
                saved_ms: Some(4),
                user_ms: 1,
                system_ms: 2,
                peak_rss_kib: 3,
                writer: "shim".to_owned(),
            };
            assert_eq!(Exit::decode(&exit.encode()), Ok(exit));
        }
    }
}
