//! Who may what.

use scheduler_core::command::{AddPrincipal, ApplyBudgets, Code, Command};
use scheduler_core::id::Revision;
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::unit::Share;

use crate::world::{
    REPLICA, World, facts, found, name, person, plan, principal, request, submission, token, tree,
};

#[test]
fn a_control_plane_is_founded_once_and_before_anything_else() {
    let mut world = World::new();
    assert_eq!(world.refused(REPLICA, Command::Found(found(Settings::default()))), Code::Founding);
    let mut empty = World::empty();
    assert_eq!(empty.refused(person("ada"), submission(request(1))), Code::Founding);
}

#[test]
fn a_job_is_cancelled_by_its_user_and_with_a_reason_by_owners_and_operators() {
    let mut world = World::new();
    let mut asked = request(1);
    asked.budget = String::from("vision");
    let job = world.submit("eve", asked);
    assert_eq!(world.cancel("bob", job, "mine now").expect_err("a stranger").code, Code::NotAllowed);
    assert_eq!(world.cancel("ada", job, "").expect_err("no reason").code, Code::BadSpec);
    world.cancel("ada", job, "the data is poisoned").expect("ada is an operator");
    let job = world.submit("bob", request(1));
    assert_eq!(world.cancel("eve", job, "a reason").expect_err("another branch").code, Code::NotAllowed);
}

#[test]
fn the_last_operator_stays() {
    let mut world = World::new();
    let revoke = |who: &str| Command::RevokePrincipal { name: name(who) };
    assert_eq!(world.refused(person("ada"), revoke("ada")), Code::NotAllowed);
    assert_eq!(world.refused(person("bob"), revoke("eve")), Code::NotAllowed);
    let operator = AddPrincipal { is_operator: true, ..principal("olga") };
    world.must(person("ada"), Command::AddPrincipal(operator));
    world.must(person("olga"), revoke("ada"));
    assert_eq!(world.refused(person("ada"), submission(request(1))), Code::NotAllowed);
    // The root's owner, revoked, makes nobody; the operator gives the name a new token.
    let again = AddPrincipal { token: token("ada-2"), ..principal("ada") };
    world.must(person("olga"), Command::AddPrincipal(again));
    // Now it owns the root and is no operator: it adds people, not operators.
    world.must(person("ada"), Command::AddPrincipal(principal("carl")));
    let operator = AddPrincipal { is_operator: true, ..principal("dora") };
    assert_eq!(world.refused(person("ada"), Command::AddPrincipal(operator)), Code::NotAllowed);
    assert_eq!(world.refused(person("ada"), revoke("olga")), Code::NotAllowed);
    assert_eq!(world.refused(person("olga"), Command::AddPrincipal(principal("bob"))), Code::NameTaken);
}

#[test]
fn a_tree_is_applied_on_the_revision_it_was_planned_for_by_who_owns_what_is_above() {
    let mut world = World::new();
    let mut root = tree();
    root.children[1].share = Share::from_ppm(400_000).expect("a share");
    let base = world.state.meta.tree;
    let stale = ApplyBudgets { root, base: Revision::new(base.get() - 1), reason: String::new(), at: None };
    assert_eq!(world.refused(person("ada"), Command::ApplyBudgets(stale.clone())), Code::Stale);
    let now = ApplyBudgets { base, ..stale };
    assert_eq!(world.refused(person("eve"), Command::ApplyBudgets(now.clone())), Code::NotAllowed);
    world.must(person("ada"), Command::ApplyBudgets(now));
    assert_eq!(world.state.meta.tree.get(), base.get() + 1);
}

#[test]
fn each_kind_of_actor_asks_for_its_own_kind_of_command() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let of_agents = [
        Command::NodeFacts { node, facts: facts("n1", "boot-2", 1) },
        Command::Reports { node, reports: Vec::new() },
    ];
    let of_replicas = [
        Command::NodeUnreachable { node },
        Command::NodeBack { node },
        Command::Adopt(plan(Vec::new())),
        Command::Batch(Vec::new()),
    ];
    let of_people = [
        submission(request(1)),
        Command::EndSafeMode { reason: String::from("all is well") },
        Command::AddPrincipal(principal("zoe")),
    ];
    for command in of_agents.iter().chain(&of_replicas) {
        assert_eq!(world.refused(person("ada"), command.clone()), Code::NotAllowed, "{command:?}");
    }
    for command in of_agents.iter().chain(&of_people) {
        assert_eq!(world.refused(REPLICA, command.clone()), Code::NotAllowed, "{command:?}");
    }
    for command in of_replicas.iter().chain(&of_people) {
        assert_eq!(world.refused(Actor::Agent(node), command.clone()), Code::NotAllowed, "{command:?}");
    }
    assert_eq!(world.refused(person("nobody"), submission(request(1))), Code::NotAllowed);
}
