//! Whoever would have to leave for a date is on another node as well, and that one is unreachable: nobody can tell it to
//! leave, so the date moves, and says by which node.

use scheduler_core::date::{Trouble, What};
use scheduler_core::explain;
use scheduler_core::id::NodeId;
use scheduler_core::plan::Links;

use crate::story::{Story, check};
use crate::world::name;

/// A gang of b on n1 and n2, protected for three hours; a has used less, and waits for one of its nodes.
const GANG: &str = "window 24h
    budget a 50
    budget b 50
    node n1 4
    node n2 4
    node n3 4
    submit gang b 2x4 min=3h
    submit other b 4 min=8h
    run 10m
    submit new a 4 min=60m
    run 1m
    new has-date\n";

/// Tells a story to the point where `of` has its date on one of two nodes; returns that one and the other.
fn dated(text: &str, of: &str, nodes: [&str; 2]) -> (Story, String, NodeId) {
    let mut story = Story::new();
    story.tell(text);
    let date = story.world.state.dates.get(&(story.id(of), name("main"))).expect("it has a date");
    let [on] = &date.promise.on[..] else { panic!("on one node: {date:?}") };
    let (mine, others) = nodes.into_iter().partition::<Vec<_>, _>(|node| story.nodes[*node] == on.0);
    assert_eq!(mine.len(), 1, "{date:?}");
    let other = others[0].to_owned();
    let id = story.nodes[&other];
    (story, other, id)
}

fn told(story: &Story, of: &str) -> Vec<String> {
    let links = Links::all_ready(&story.world.state);
    let found = explain::job(&story.world.state, &links, story.id(of), story.world.now).expect("it waits");
    let groups = found.facts.iter().filter(|group| group.title == "its date");
    groups.flat_map(|group| &group.facts).map(|fact| format!("{}: {}", fact.what, fact.value)).collect()
}

#[test]
fn a_date_moves_when_who_has_its_gpus_is_on_an_unreachable_node_too() {
    let (mut story, other, node) = dated(GANG, "new", ["n1", "n2"]);
    story.tell(&format!("run 1h\nlose {other}\nrun 1m\nnew has-date"));
    let date = story.world.state.dates.get(&(story.id("new"), name("main"))).expect("it has one").clone();
    assert_eq!((date.moved, date.promise.on[0].0), (1, story.nodes["n3"]), "{date:?}");
    assert_eq!(date.moves[0].trouble, Trouble { node, what: What::HolderUnreachable });
    assert!(date.moves[0].from < date.moves[0].to);
    let why = format!("moved, later: {other} is unreachable, and somebody is there who would have to leave");
    assert!(told(&story, "new").contains(&why), "{:?}", told(&story, "new"));
    // It is kept there; the gang goes on.
    story.tell("run 7h\ngang runs\nnew runs\nother waits");
    story.replay();
}

#[test]
fn a_date_ends_when_no_other_node_can_be_counted_on_and_there_is_a_new_one_when_the_node_is_back() {
    let text = GANG.replace("node n3 4\n", "").replace("submit other b 4 min=8h\n", "");
    let (mut story, other, _) = dated(&text, "new", ["n1", "n2"]);
    story.tell(&format!("run 1h\nlose {other}\nrun 1m\nnew waits"));
    assert!(story.world.state.dates.is_empty(), "nobody knows when the gang can leave");
    // Its protection is over, and it runs on: nobody can tell all of it to leave.
    story.tell("quiet 3h\nnew waits");
    let links = Links::all_ready(&story.world.state);
    let found = explain::job(&story.world.state, &links, story.id("new"), story.world.now).expect("it waits");
    let reason = &found.reasons[0];
    assert_eq!((reason.token.as_str(), reason.who.as_str()), ("waiting.capacity", "operator"), "{reason:?}");
    story.tell(&format!("back {other}\nrun 10m\nnew runs\ntakes 1"));
    story.replay();
}

#[test]
fn a_date_ends_when_a_gang_of_the_free_tier_on_its_gpus_is_on_an_unreachable_node_too() {
    // Of the free tier it came after the date was given, to a node where something is idle until then.
    let (mut story, other, _) = dated(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         submit one b 2 min=3h
         submit two b 3 min=6h
         run 10m
         submit new a 4 min=60m
         run 1m
         new has-date
         submit free b 2x1 free
         run 1m
         free runs",
        "new",
        ["n1", "n2"],
    );
    let was = story.world.state.dates.get(&(story.id("new"), name("main"))).expect("it has one").clone();
    story.tell(&format!("lose {other}\nrun 1m"));
    assert!(story.world.state.dates.is_empty(), "n2 is the only other one");
    story.tell("run 4h\nnew waits");
    assert!(was.promise.at < story.world.now, "it would have come by now");
    story.tell(&format!("back {other}\nrun 10m\nnew runs"));
    story.replay();
}

#[test]
fn a_date_stands_when_who_is_on_an_unreachable_node_too_leaves_room_for_it() {
    check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         submit gang b 2x1 min=8h
         submit one b 3 min=3h
         submit two b 3 min=3h
         run 10m
         submit new a 3 min=60m
         run 1m
         new has-date
         lose n2
         run 3h
         new runs
         gang runs",
    );
}
