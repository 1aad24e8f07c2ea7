//! Jobs and attempts as they are typed: `4190`, `4190.2`.

use crate::codes;
use crate::failure::Failure;

/// A job, or one attempt of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The job.
    pub job: u32,
    /// The attempt, if one was named.
    pub attempt: Option<u32>,
}

/// Reads a job or attempt.
///
/// # Errors
/// When it is neither.
pub fn parse(text: &str) -> Result<Subject, Failure> {
    let wrong = || {
        Failure::new(codes::USAGE, format!("`{text}` is not a job"))
            .fix("write its number, like 4190, or an attempt's, like 4190.2")
    };
    let (job, attempt) = match text.split_once('.') {
        Some((job, attempt)) => (job, Some(attempt)),
        None => (text, None),
    };
    let number = |digits: &str| digits.parse::<u32>().map_err(|_| wrong());
    Ok(Subject { job: number(job)?, attempt: attempt.map(number).transpose()? })
}

/// Reads a job; an attempt is too much here.
///
/// # Errors
/// When it is none.
pub fn job(text: &str) -> Result<u32, Failure> {
    let subject = parse(text)?;
    match subject.attempt {
        None => Ok(subject.job),
        Some(_) => Err(Failure::new(codes::USAGE, format!("`{text}` is an attempt; a job is meant here"))
            .fix(format!("{}", subject.job))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Subject, job, parse};

    #[test]
    fn attempts_have_a_dot() {
        assert_eq!(parse("4190").ok(), Some(Subject { job: 4190, attempt: None }));
        assert_eq!(parse("4190.2").ok(), Some(Subject { job: 4190, attempt: Some(2) }));
        for wrong in ["", "x", "4190.", ".2", "4190.2.1", "-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(job("4190.2").is_err());
    }
}
