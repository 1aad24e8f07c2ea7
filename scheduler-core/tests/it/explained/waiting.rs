//! Why a job waits, when others have what it needs.

use scheduler_core::explain::{Explanation, Token, job};
use scheduler_core::id::{JobId, LogIndex};
use scheduler_core::job::{AttemptEnd, Ended, Exit};
use scheduler_core::node::Contact;
use scheduler_core::plan::Links;
use scheduler_core::state::{SafeMode, State};
use scheduler_core::unit::Span;

use super::check;
use crate::lab::{NOW, undated};
use crate::report::capacity::{attempt, live, node};

fn explained(lab: &State, id: u32) -> Explanation {
    job(lab, &Links::all_ready(lab), JobId::new(id), NOW).expect("state has it")
}

fn tokens(lab: &State, id: u32) -> Vec<Token> {
    explained(lab, id).reasons.iter().map(|reason| reason.token).collect()
}

#[test]
fn gpus_past_their_protection_say_whose_side_goes_first() {
    // Of 8 GPUs for a week each side has 672 GPU-h; a ran 8 x 5 h, b more: it set nothing aside, but 8 x 9 h ran.
    let lab = undated(
        "node n1 8 h100
         budget a 50
         budget b 50
         runs 90.1 b 8 n1 0-7 for=9h was
         runs 1.1 a 8 n1 0-7 for=5h min=1h
         job 2 b 4",
    );
    check(
        &explained(&lab, 2),
        NOW,
        &["what it needs"],
        "2 job-2 is waiting: 8 GPUs are past their protection and stay with 1.1 (a): a at 0.05 goes before b at 0.10
         waiting.order, budget owner: 8 GPUs are past their protection and stay with 1.1 (a): a at 0.05 goes before b at 0.10
         what it may use now
         idle GPUs: 0
         what it may not use
         with 1.1 (a): 8: a at 0.05 goes before b at 0.10",
    );
    let sides = explained(&lab, 2).reasons[0].sides.expect("it is about order among budgets");
    assert_eq!((sides.0.budget.get(), sides.1.budget.get()), (2, 1), "its own side first");
}

#[test]
fn gpus_within_the_margin_say_so() {
    let lab = undated(
        "node n1 8 h100
         budget a 50
         budget b 50
         runs 1.1 a 8 n1 0-7 for=5h min=1h
         job 2 b 4",
    );
    let found = explained(&lab, 2);
    assert_eq!(
        found.reasons[0].sentence,
        "8 GPUs are past their protection and stay with 1.1 (a): b at 0.00 is below a at 0.05 by less than the margin \
         of 10% of an allocation"
    );
    assert_eq!(tokens(&lab, 2), [Token::WaitingOrder]);
}

#[test]
fn gpus_of_its_own_budget_and_of_nodes_that_nobody_hears_of_stay_where_they_are() {
    let mut lab = undated(
        "node n1 4 h100
         node n2 4 h100
         node n3 4 h100
         budget a 100
         runs 1.1 a 4 n1 0-3 for=5h first
         runs 2.1 a 4 n2 0-3 for=5h free
         runs 3.1 a 4 n3 0-3 for=1h min=2h
         job 4 a 4 first",
    );
    // 2 is on n3 too, as if it were a gang, and nobody hears of n3.
    let mut other = live(&mut lab, 2).placements[0].clone();
    other.node = scheduler_core::id::NodeId::new(3);
    live(&mut lab, 2).placements.push(other);
    node(&mut lab, "n3").contact = Contact::Unreachable { since: NOW };
    check(
        &explained(&lab, 4),
        NOW,
        &["what it needs"],
        "4 job-4 is waiting: 4 GPUs are past their protection and stay with 1.1 (a): it is of the same budget, and its turn is not later
         waiting.order, you: 4 GPUs are past their protection and stay with 1.1 (a): it is of the same budget, and its turn is not later
         waiting.capacity, operator: 4 GPUs are past their protection and stay with 2.1 (a): nobody hears of a node of it, so nobody could confirm that it left
         what it may use now
         idle GPUs: 0
         what it may not use
         with 1.1 (a): 4: it is of the same budget, and its turn is not later
         with 2.1 (a): 4: nobody hears of a node of it, so nobody could confirm that it left
         idle on n3: unreachable since: 0 +0s",
    );
    // It is the same while that is not written down, and only the leader knows.
    node(&mut lab, "n3").contact = Contact::Ready;
    let links = Links::new([1, 2].map(scheduler_core::id::NodeId::new));
    let told = job(&lab, &links, JobId::new(4), NOW).expect("state has it");
    let unheard = &told.reasons[1].sentence;
    assert!(unheard.contains("2.1 (a): nobody hears of a node of it"), "{unheard}");
}

#[test]
fn protected_gpus_bind_before_those_that_go_first_and_have_an_end() {
    let lab = undated(
        "node n1 8 h100
         budget a 50
         budget b 50
         runs 90.1 b 8 n1 0-7 for=9h was
         runs 1.1 a 2 n1 0-1 for=5h min=1h
         runs 2.1 a 3 n1 2-4 for=1h min=4h
         runs 3.1 a 3 n1 5-7 for=1h min=6h
         job 4 b 4",
    );
    let found = explained(&lab, 4);
    assert_eq!(tokens(&lab, 4), [Token::WaitingProtection, Token::WaitingOrder]);
    assert_eq!(found.reasons[0].until, Some(NOW.plus(Span::from_hours(3))));
    assert_eq!(found.earliest, found.reasons[0].until);
}

#[test]
fn a_gang_waits_for_enough_nodes() {
    let mut lab = undated(
        "node n1 4 h100
         node n2 4 h100
         node n3 4 h100
         node n4 8 a100
         budget a 100
         runs 1.1 a 4 n2 0-3 for=1h min=2h
         runs 2.1 a 4 n3 0-3 for=1h min=5h
         job 3 a 4 type=h100",
    );
    lab.jobs.get_mut(&JobId::new(3)).expect("it is there").terms.shape.nodes = 3;
    let links = Links::all_ready(&lab);
    // The line and the outlook, without what the planner makes of gangs.
    let found = job(&lab, &links, JobId::new(3), NOW).expect("state has it");
    if found.place.is_some() {
        assert_eq!(found.reasons[0].token, Token::WaitingProtection);
        assert_eq!(found.reasons[0].until, Some(NOW.plus(Span::from_hours(4))));
    }
    assert_eq!(found.facts[0].facts[0].value, "4 x h100 on each of 3 nodes");
}

#[test]
fn gpus_promised_to_others_count_as_protected_with_them() {
    let mut lab = undated(
        "node n1 8 h100
         node n2 8 a100
         budget a 100
         runs 1.1 a 8 n1 0-7 for=5h min=1h
         runs 2.1 a 8 n2 0-7 for=1h min=1h
         job 3 a 8 type=h100",
    );
    // 2 was promised what 1 gives up.
    let told = Ended { at: NOW, cause: AttemptEnd::Preempted, exit: Some(Exit::Code(0)) };
    live(&mut lab, 1).ended = Some(told);
    for slot in 0..8 {
        node(&mut lab, "n1").gpus[slot].next = Some(attempt(2));
    }
    let taker = live(&mut lab, 2);
    (taker.go_at, taker.started_at, taker.start_by) = (None, None, NOW.plus(Span::from_mins(12)));
    let found = explained(&lab, 3);
    assert_eq!(tokens(&lab, 3), [Token::WaitingProtection]);
    assert_eq!(found.earliest, Some(NOW.plus(Span::from_mins(72))));
    let not_usable: Vec<&str> = found.facts[2].facts.iter().map(|fact| fact.what.as_str()).collect();
    assert_eq!(not_usable, ["promised to others, or starting", "of another type, or on nodes too small"]);
}

#[test]
fn safe_mode_binds_before_the_line_and_is_not_taken_for_a_lack_of_cores() {
    let mut lab = undated("node n1 8 h100\nbudget a 100\njob 1 a 4\njob 2 a 4");
    let what = "a law was broken".to_owned();
    lab.meta.safe_mode = Some(SafeMode { since: NOW, index: LogIndex::new(4), what });
    assert_eq!(tokens(&lab, 1), [Token::WaitingSafeMode]);
    assert_eq!(tokens(&lab, 2), [Token::WaitingSafeMode, Token::WaitingOrder]);
}

#[test]
fn a_job_of_the_free_tier_waits_for_idle_gpus_alone() {
    let mut lab = undated(
        "node n1 8 h100
         budget a 100
         runs 1.1 a 4 n1 0-3 for=5h
         runs 2.1 a 3 n1 4-6 for=5h free
         runs 4.1 a 1 n1 7 for=5h free
         job 3 a 4 free",
    );
    let told = Ended { at: NOW, cause: AttemptEnd::Exited, exit: Some(Exit::Code(0)) };
    live(&mut lab, 4).ended = Some(told);
    let found = explained(&lab, 3);
    assert_eq!(tokens(&lab, 3), [Token::WaitingIdle]);
    let facts: Vec<String> =
        found.facts[2].facts.iter().map(|fact| format!("{} {}", fact.what, fact.value)).collect();
    assert_eq!(facts, ["past their protection 4", "in the free tier 3", "with attempts that leave 1"]);
    assert_eq!(found.facts[1].facts.len(), 1, "it may use idle GPUs alone");
}
