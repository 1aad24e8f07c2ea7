//! Where a job may be: GPU types in order of preference, groups of a topology, nodes that it excludes.

use scheduler_core::command::{Code, Command, SetNode};
use scheduler_core::decision::Dropped;
use scheduler_core::explain;
use scheduler_core::id::JobId;
use scheduler_core::plan::Links;
use scheduler_core::spec::{Asks, Request};
use scheduler_core::unit::GpuCount;

use crate::lab::{NOW, planned, state};
use crate::world::{World, label, name, person, request, submission};

fn check(lines: &str, expected: &str) {
    assert_eq!(planned(&state(lines)), expected, "{lines}");
}

#[test]
fn a_job_takes_the_first_type_that_lets_it_start_now() {
    let nodes = "node n1 4 a100\nnode n2 4 h100\nnode n3 4 l40\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 2 type=h100,a100"), "1 on n2:0,1\n");
    check(&format!("{nodes}job 1 a 2 type=a100,h100"), "1 on n1:0,1\n");
    let busy = format!("{nodes}runs 9.1 a 4 n2 0-3 for=1h min=2h\n");
    check(&format!("{busy}job 1 a 2 type=h100,a100"), "1 on n1:0,1\n");
    check(&format!("{busy}job 1 a 2 type=h100"), "");
    // Idle GPUs of a later type before anybody is taken on the first.
    let free = format!("{nodes}runs 9.1 a 4 n2 0-3 for=1h free\n");
    check(&format!("{free}job 1 a 2 type=h100,a100"), "1 on n1:0,1\n");
    check(
        &format!("{free}runs 8.1 a 4 n1 0-3 for=1h min=2h\njob 1 a 2 type=a100,h100"),
        "1 on n2:0,1 takes 9.1\n",
    );
}

#[test]
fn a_gang_is_wholly_on_one_type() {
    let nodes = "node n1 2 h100\nnode n2 2 a100\nnode n3 2 a100\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 2x2 type=h100,a100"), "1 on n2:0,1 n3:0,1\n");
    check(&format!("{nodes}runs 9.1 a 2 n3 0-1 for=1h min=2h\njob 1 a 2x2 type=h100,a100"), "");
    let taken = format!("{nodes}runs 9.1 a 2 n3 0-1 for=1h free\njob 1 a 2x2 type=h100,a100");
    check(&taken, "1 on n2:0,1 n3:0,1 takes 9.1\n");
}

#[test]
fn a_gang_spans_the_fewest_groups() {
    let nodes = "node n1 2 h100 at=b1/r1\nnode n2 2 h100 at=b2/r1\nnode n3 2 h100 at=b1/r2\nnode n4 2 h100 at=b1/r1\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 2x2"), "1 on n1:0,1 n4:0,1\n");
    check(&format!("{nodes}job 1 a 3x2"), "1 on n1:0,1 n4:0,1 n3:0,1\n");
    check(&format!("{nodes}job 1 a 4x2"), "1 on n1:0,1 n4:0,1 n3:0,1 n2:0,1\n");
}

#[test]
fn within_a_level_is_a_must_and_said_to_be_what_binds() {
    let nodes = "node n1 2 h100 at=b1/r1\nnode n2 2 h100 at=b2/r1\nnode n3 2 h100 at=b1/r2\nnode n4 2 h100\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 2x2 within=1"), "1 on n1:0,1 n3:0,1\n");
    let apart = format!("{nodes}job 1 a 2x2 within=2");
    check(&apart, "");
    let busy = format!("{nodes}runs 9.1 a 2 n3 0-1 for=1h min=2h\njob 1 a 2x2 within=1");
    check(&busy, "");
    let lab = state(&busy);
    let why = explain::job(&lab, &Links::all_ready(&lab), JobId::new(1), NOW).expect("it is there");
    let shape = why.reasons.iter().find(|reason| reason.token == explain::Token::WaitingShape);
    let said = "3 nodes have 2 idle GPUs each, but at most 1 of 2 within one group of level 1";
    assert_eq!(shape.map(|reason| reason.sentence.as_str()), Some(said), "{:?}", why.reasons);
    let far = "nodes anywhere instead of within one group of level 1: starts now";
    assert!(why.would_change.iter().any(|line| line == far), "{:?}", why.would_change);
    // The group in which the least is lost.
    let free = format!(
        "{nodes}node n5 2 h100 at=b2/r2\nruns 8.1 a 2 n3 0-1 for=1h free\nruns 9.1 a 1 n5 0 for=1h free\njob 1 a 2x2 within=1"
    );
    check(&free, "1 on n2:0,1 n5:0,1 takes 9.1\n");
}

#[test]
fn an_excluded_node_is_never_used() {
    let nodes = "node n1 4 h100\nnode n2 4 h100\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 4 exclude=n1"), "1 on n2:0,1,2,3\n");
    check(&format!("{nodes}job 1 a 4 exclude=n1,n2"), "");
    check(
        &format!("{nodes}runs 9.1 a 4 n2 0-3 for=1h free\njob 1 a 4 exclude=n1"),
        "1 on n2:0,1,2,3 takes 9.1\n",
    );
    let lab = state(&format!("{nodes}runs 9.1 a 4 n2 0-3 for=1h min=2h\njob 1 a 4 exclude=n1"));
    let why = explain::job(&lab, &Links::all_ready(&lab), JobId::new(1), NOW).expect("it is there");
    assert!(
        why.would_change.iter().any(|line| line == "the nodes that it excludes: starts now"),
        "{:?}",
        why.would_change
    );
}

#[test]
fn what_cannot_be_anywhere_is_refused_with_the_way_out() {
    let mut world = World::new();
    let (one, two) = (world.node("n1", 8), world.node("n2", 8));
    let excluding = |nodes: &[&str]| Request {
        asks: Asks { exclude: nodes.iter().map(|node| name(node)).collect(), ..Asks::default() },
        ..request(8)
    };
    assert_eq!(world.refused(person("bob"), submission(excluding(&["n3"]))), Code::BadSpec);
    assert_eq!(world.refused(person("bob"), submission(excluding(&["n1", "n2"]))), Code::ImpossibleShape);
    let job = world.submit("bob", excluding(&["n1"]));
    let no = world.job(job).next_attempt;
    assert_eq!(world.try_place(job, no, one, &[0, 1, 2, 3, 4, 5, 6, 7]), Some(Dropped::WrongShape));
    let within = |nodes, level| {
        let mut asked = request(8);
        (asked.shape.nodes, asked.shape.within) = (nodes, Some(level));
        asked
    };
    assert_eq!(
        world.refused(person("bob"), submission(within(2, 1))),
        Code::BadSpec,
        "nobody said where they are"
    );
    for (node, block) in [(one, "b1"), (two, "b2")] {
        let set = |topology| Command::SetNode(SetNode { node, topology });
        assert_eq!(world.refused(person("bob"), set(vec![name(block)])), Code::NotAllowed);
        assert_eq!(world.refused(person("ada"), set(vec![name(block); 9])), Code::BadSpec);
        world.must(person("ada"), set(vec![name(block), name("r1")]));
    }
    assert_eq!(world.refused(person("bob"), submission(within(2, 3))), Code::BadSpec, "there are two levels");
    assert_eq!(world.refused(person("bob"), submission(within(2, 0))), Code::BadSpec);
    let far = world.apply(person("bob"), submission(within(2, 1))).expect_err("no block has two");
    assert_eq!(far.code, Code::ImpossibleShape);
    assert!(far.fix.contains("b1 with 1, b2 with 1"), "{far:?}");
    let gang = world.submit("bob", {
        let mut asked = within(1, 2);
        asked.shape.gpus_per_node = GpuCount::new(1);
        asked
    });
    assert!(world.try_start(gang, &[(one, &[0])], &[]).is_none(), "one node is within any level");
    let mut types = request(1);
    types.shape.gpu_type = Some(label("h100"));
    types.shape.or_types = vec![label("H100")];
    assert_eq!(world.refused(person("bob"), submission(types.clone())), Code::BadSpec, "twice the same");
    types.shape.or_types = vec![label("a100")];
    world.submit("bob", types.clone());
    types.shape.gpu_type = None;
    assert_eq!(world.refused(person("bob"), submission(types)), Code::BadSpec);
    assert_eq!(world.replayed().digest(), world.state.digest());
}
