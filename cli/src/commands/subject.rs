//! Jobs, tasks of arrays and attempts as they are typed: `4190`, `4190[7]`, `4190.2`, `4190[7].2`.

use proto::v1::ShowJobRequest;

use crate::client::Client;
use crate::codes;
use crate::failure::Failure;

/// A job, one task of an array, or one attempt of either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The job, or the array.
    pub job: u32,
    /// The task of the array, if one was named.
    pub task: Option<u32>,
    /// The attempt, if one was named.
    pub attempt: Option<u32>,
}

impl Subject {
    /// Returns the number of the job that is meant: a task has one of its own.
    ///
    /// # Errors
    /// When there is no such task, or no replica answers.
    pub async fn number(&self, client: &Client) -> Result<u32, Failure> {
        match self.task {
            None => Ok(self.job),
            Some(_) => Ok(client.show_job(self.show()).await?.job),
        }
    }

    /// Returns the request that shows it.
    pub fn show(&self) -> ShowJobRequest {
        ShowJobRequest { read: None, job: self.job, task: self.task }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.job)?;
        self.task.map_or(Ok(()), |task| write!(f, "[{task}]"))?;
        self.attempt.map_or(Ok(()), |attempt| write!(f, ".{attempt}"))
    }
}

/// Reads a job, a task or an attempt.
///
/// # Errors
/// When it is neither.
pub fn parse(text: &str) -> Result<Subject, Failure> {
    let wrong = || {
        Failure::new(codes::USAGE, format!("`{text}` is not a job")).fix(
            "write its number, like 4190, a task's of an array, like 4190[7], or an attempt's, like 4190.2",
        )
    };
    let (job, attempt) = match text.split_once('.') {
        Some((job, attempt)) => (job, Some(attempt)),
        None => (text, None),
    };
    let (job, task) = match job.split_once('[') {
        Some((job, task)) => (job, Some(task.strip_suffix(']').ok_or_else(wrong)?)),
        None => (job, None),
    };
    let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
    Ok(Subject {
        job: number(job)?,
        task: task.map(number).transpose()?,
        attempt: attempt.map(number).transpose()?,
    })
}

/// Reads a job or a task; an attempt is too much here.
///
/// # Errors
/// When it is none.
pub fn job(text: &str) -> Result<Subject, Failure> {
    let subject = parse(text)?;
    match subject.attempt {
        None => Ok(subject),
        Some(_) => Err(Failure::new(codes::USAGE, format!("`{text}` is an attempt; a job is meant here"))
            .fix(Subject { attempt: None, ..subject }.to_string())),
    }
}

/// Reads several of them.
///
/// # Errors
/// When one is none.
pub fn jobs(texts: &[String]) -> Result<Vec<Subject>, Failure> {
    texts.iter().map(|text| job(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Subject, job, parse};

    #[test]
    fn tasks_have_brackets_and_attempts_a_dot() {
        let subject = |job, task, attempt| Some(Subject { job, task, attempt });
        assert_eq!(parse("4190").ok(), subject(4190, None, None));
        assert_eq!(parse("4190.2").ok(), subject(4190, None, Some(2)));
        assert_eq!(parse("4190[7]").ok(), subject(4190, Some(7), None));
        assert_eq!(parse("4190[7].2").ok(), subject(4190, Some(7), Some(2)));
        for wrong in
            ["", "x", "4190.", ".2", "4190.2.1", "-1", "4190[", "4190[]", "4190[x]", "[7]", "4190.2[7]"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(job("4190.2").is_err());
        assert_eq!(parse("4190[7].2").map(|subject| subject.to_string()).ok().as_deref(), Some("4190[7].2"));
    }
}
