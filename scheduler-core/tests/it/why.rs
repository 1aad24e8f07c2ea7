//! The queue and explanations on small clusters.

use scheduler_core::explain::{Token, job, place, place_within};
use scheduler_core::id::JobId;
use scheduler_core::plan::Links;
use scheduler_core::queue::{of_pool, rows};

use crate::lab::{NOW, name, undated};

/// Shows the queue as `place job reason uses`, with uses in thousandths.
fn check_queue(lines: &str, expected: &str) {
    let lab = undated(lines);
    let shown = rows(&lab, &Links::all_ready(&lab), NOW).into_iter().map(|row| {
        let uses: Vec<String> = row
            .uses
            .iter()
            .map(|used| used.per_mille().map_or("none".to_owned(), |per_mille| per_mille.to_string()))
            .collect();
        let place = row.place.map_or("-".to_owned(), |place| place.to_string());
        format!("{place} {} {} {}", row.job, row.reason.token.as_str(), uses.join(">")).trim_end().to_owned()
    });
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown.collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

/// Shows a job's explanation: its sentence, tokens, facts and changes.
fn check_job(lines: &str, id: u32, expected: &str) {
    let lab = undated(lines);
    let explained = job(&lab, &Links::all_ready(&lab), JobId::new(id), NOW).expect("a known job");
    let mut shown = vec![explained.sentence.clone()];
    let tokens = explained.reasons.iter().map(|reason| {
        let until =
            reason.until.map_or(String::new(), |at| format!(" +{}", at.since(NOW).as_millis() / 1000));
        format!("{}{until}", reason.token.as_str())
    });
    shown.push(tokens.collect::<Vec<_>>().join(", "));
    for group in &explained.facts {
        let facts =
            group.facts.iter().map(|fact| format!("{} {}", fact.what, fact.value).trim_end().to_owned());
        shown.push(format!("{}: {}", group.title, facts.collect::<Vec<_>>().join(", ")));
    }
    if let Some(place) = &explained.place {
        let ahead = place.ahead.iter().map(|ahead| {
            let parted = ahead.parted.map_or("same budget".to_owned(), |(theirs, mine)| {
                format!("{} < {}", theirs.per_mille().unwrap_or(9999), mine.per_mille().unwrap_or(9999))
            });
            format!("{} {parted}", ahead.job)
        });
        shown.push(
            format!("place {}: {}", place.place, ahead.collect::<Vec<_>>().join(", ")).trim().to_owned(),
        );
    }
    shown.extend(explained.would_change);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, expected, "\nin\n{lines}\nfound\n{}", shown.join("\n"));
}

const FULL: &str = "node n1 8 h100
    budget a 50
    budget b 50
    runs 90.1 b 8 n1 0-7 for=1h min=3h
    job 1 a 4 min=168h
    job 2 a 4 min=168h
    job 3 b 2
    job 4 b 1 free";

#[test]
fn the_line_takes_each_job_as_placed_before_the_next() {
    // After 1, a has a whole share set aside, so 3 of b goes before 2 of a.
    check_queue(
        FULL,
        "1 1 waiting.protection 0
         2 3 waiting.protection 35
         3 2 waiting.protection 1000
         4 4 waiting.idle 0",
    );
}

#[test]
fn an_explanation_names_what_binds_and_who_is_ahead() {
    check_job(
        FULL,
        2,
        "2 job-2 is waiting: its GPUs are with protected jobs
         waiting.protection +7200, waiting.order
         what it needs: GPUs 4 on one node, protection 168 h
         what it may use now: idle GPUs 0
         what it may not use: protected 8
         place 3: 1 same budget, 3 35 < 1000
         its budget or turn: no effect now, the GPUs are not contested but occupied",
    );
}

#[test]
fn enough_gpus_in_the_wrong_places_are_said_to_be_so() {
    check_job(
        "node n1 8 h100
         node n2 8 h100
         budget a 100
         runs 90.1 a 4 n1 0-3 for=5h first
         runs 91.1 a 4 n2 0-3 for=5h first
         job 1 a 8 first",
        1,
        "1 job-1 is waiting: 8 GPUs are idle, but no node has 8 of them
         waiting.shape, waiting.order
         what it needs: GPUs 8 on one node, protection 1 h
         what it may use now: idle GPUs 8
         what it may not use: with 90.1 (a) 4: it is of the same budget, and its turn is not later, with 91.1 (a) 4: \
         it is of the same budget, and its turn is not later
         place 1:
         4 GPUs instead of 8: starts now",
    );
}

#[test]
fn nodes_that_would_help_if_they_were_back_are_named() {
    check_job(
        "node n1 4 h100 gone
         node n2 2 h100
         node n3 8 a100
         budget a 100
         job 1 a 4 type=h100",
        1,
        "1 job-1 is waiting: it would fit, but n1 is unreachable
         waiting.capacity
         what it needs: GPUs 4 x h100 on one node, protection 1 h
         what it may use now: idle GPUs 0
         what it may not use: of another type, or on nodes too small 10, idle on n1: unreachable since 4
         place 1:
         2 GPUs instead of 4: starts now
         any GPU type instead of h100: starts now
         the return of nodes that take no work now: starts now
         its budget or turn: no effect now, the GPUs are not contested but occupied",
    );
    check_queue("node n1 2 h100\nbudget a 100\njob 1 a 4", "- 1 waiting.capacity");
    check_queue("budget a 100\njob 1 a 4", "- 1 waiting.capacity");
}

#[test]
fn what_fits_is_next_or_behind_others() {
    check_queue(
        "node n1 2 h100
         budget a 100
         job 1 a 2
         job 2 a 1",
        "1 1 waiting.evaluation 0
         2 2 waiting.order 5",
    );
}

#[test]
fn running_jobs_say_whether_anybody_may_take_their_gpus() {
    let lines = "node n1 8 h100
         budget a 100
         runs 1.1 a 2 n1 0-1 for=1h min=3h
         runs 2.1 a 2 n1 2-3 for=5h min=3h
         runs 3.1 a 2 n1 4-5 for=5h free";
    let lab = undated(lines);
    let token = |id| {
        let explained = job(&lab, &Links::all_ready(&lab), JobId::new(id), NOW).expect("a known job");
        (explained.reasons[0].token, explained.protected_until.map(|at| at < NOW))
    };
    assert_eq!(token(1), (Token::RunningProtected, Some(false)));
    assert_eq!(token(2), (Token::RunningInterruptible, Some(true)));
    assert_eq!(token(3), (Token::RunningFree, None));
    let counts = of_pool(&lab, &name("main"), NOW);
    assert_eq!((counts.gpus, counts.protected, counts.interruptible), (8, 2, 2));
    assert_eq!((counts.free_tier, counts.idle, counts.unavailable, counts.changing), (2, 2, 0, 0));
}

#[test]
fn a_job_in_several_pools_has_its_best_place() {
    let lab = undated(
        "node n1 1 h100 pool=east
         node n2 1 h100 pool=west
         budget a 100
         runs 90.1 a 1 n1 0 for=1h min=2h
         runs 91.1 a 1 n2 0 for=1h min=2h
         job 1 a 1 pool=east
         job 2 a 1",
    );
    assert_eq!(place_within(&lab, JobId::new(2), NOW, 0).map(|place| place.place), Some(1));
    let place = place(&lab, JobId::new(2), NOW).expect("it waits");
    assert_eq!((place.pool, place.place), (name("west"), 1));
}

#[test]
fn tokens_are_all_different_and_keep_their_texts() {
    let mut texts: Vec<&str> = Token::ALL.iter().map(|token| token.as_str()).collect();
    texts.sort_unstable();
    let all = texts.len();
    texts.dedup();
    assert_eq!(texts.len(), all);
    assert!(texts.contains(&"waiting.protection") && texts.contains(&"running.interruptible"));
}
