//! What a story says is so.

use scheduler_core::job::{HeldBy, Phase};
use scheduler_core::spec::Tier;

use super::Story;
use crate::world::name;

impl Story {
    /// Checks a line that says what is so now.
    pub(super) fn says(&self, line: &str, words: &[&str]) {
        let found = match words {
            ["takes", _] => format!("takes {}", self.taken().len()),
            ["use", path, _] => format!("use {path} {}", self.per_cent(path)),
            [of, "is", "held"] => format!("{of} {}", self.stands(of)),
            [of, "ended", _] | [of, "runs" | "waits" | "leaves" | "starts"] => {
                format!("{of} {}", self.stands(of))
            }
            [of, "has-date"] => {
                let id = self.id(of);
                let has = self.world.state.dates.keys().any(|(job, _)| *job == id);
                format!("{of} has{}", if has { "-date" } else { " no date" })
            }
            [of, "started", _, "times"] => format!("{of} started {} times", self.started(of)),
            [of, "gave-way", _, "times"] => {
                format!("{of} gave-way {} times", self.world.job(self.id(of)).progress.preemptions)
            }
            _ => panic!("a story has no such line: {line}"),
        };
        let hours = self.world.now.since(crate::world::BEGIN).as_millis() / 3_600_000;
        assert_eq!(found, words.join(" "), "after {hours} h\n{}", self.shown());
    }

    /// Where a job stands, in the words of a story.
    pub fn stands(&self, of: &str) -> String {
        let id = self.id(of);
        let Some(job) = self.world.state.jobs.get(&id) else {
            let end = self.world.state.results.get(&id).map(|result| result.end);
            return format!("ended {}", end.map_or(String::from("and is forgotten"), word));
        };
        match &job.phase {
            Phase::Held { by, .. } => match by {
                HeldBy::Backoff { .. } => String::from("waits"),
                _ => String::from("is held"),
            },
            Phase::Waiting { .. } => String::from("waits"),
            Phase::Live(no) => {
                let attempt = scheduler_core::id::AttemptId { job: id, no: *no };
                let attempt = self.world.attempt(attempt);
                match (&attempt.stop, attempt.started_at) {
                    (Some(_), _) => String::from("leaves"),
                    (None, Some(_)) => String::from("runs"),
                    (None, None) => String::from("starts"),
                }
            }
            Phase::Ended { end, .. } => format!("ended {}", word(*end)),
        }
    }

    fn started(&self, of: &str) -> usize {
        let id = self.id(of);
        self.starts.iter().filter(|start| start.job == id).count()
    }

    fn per_cent(&self, path: &str) -> u64 {
        let state = &self.world.state;
        let id = scheduler_core::budget::find(state, path).expect("a known budget");
        let window = state.meta.settings.window;
        let used =
            state.books.use_of(id, &name("main"), Tier::Funded, &state.budgets, window, self.world.now);
        used.ppm().map_or(u64::MAX, |ppm| ppm / 10_000)
    }

    /// All jobs, for a message.
    fn shown(&self) -> String {
        self.jobs.keys().map(|of| format!("{of} {}\n", self.stands(of))).collect()
    }
}

fn word(end: scheduler_core::job::End) -> String {
    format!("{end:?}").to_lowercase()
}
