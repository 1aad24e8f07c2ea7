//! Who is silent, who is unreachable, and who is not called so.

use super::check;

#[test]
fn silence_becomes_a_fact_after_its_time() {
    check(
        "node n1 1 h100\nnode n2 1 h100\nbudget a 100",
        "up n1 7
         facts n1 7 => send n1, wake +10
         up n2 8
         facts n2 8 => send n2
         +10 woke => wake +20000
         +5000 woke => wake +20000
         +80000 beat n1 => wake +80010
         +90000 beat n1 => propose 1: unreachable n2, wake +95000
         state unreachable n2
         +90010 commit 1 => wake +90020
         +90020 woke => wake +95000
         +95000 beat n1 => wake +115000
         +95001 beat n2 => propose 2: back n2, wake +95011
         state ready n2
         +95004 commit 2
         +95011 woke => wake +96001
         +96001 woke => wake +115000",
    );
}

#[test]
fn step_of_time_by_an_operator_makes_nobody_silent() {
    check(
        "node n1 1 h100\nnode n2 1 h100\nbudget a 100",
        "up n1 7
         facts n1 7 => send n1, wake +10
         up n2 8
         facts n2 8 => send n2
         +10 woke => wake +20000
         +5000 beat n1
         +5000 beat n2
         +7205000 state jump 7200000
         +7205000 applied => wake +7205010
         +7205010 woke => wake +7220000
         +7219000 beat n1
         +7219000 beat n2
         +7220000 woke => wake +7239000",
    );
}

#[test]
fn a_young_leader_that_hears_of_few_calls_nobody_unreachable() {
    check(
        "node n1 1 h100\nnode n2 1 h100\nbudget a 100",
        "up n1 7
         facts n1 7 => send n1, wake +10
         +170000 beat n1 => wake +175000
         +181000 beat n1 => propose 1: unreachable n2, wake +186000",
    );
}

#[test]
fn many_nodes_silent_at_once_are_not_called_unreachable() {
    let mut lab = String::from("budget a 100\n");
    let mut script = String::new();
    for node in 1..=8 {
        lab += &format!("node n{node} 1 h100\n");
        script += &format!("up n{node} {node}\n");
        let wake = if node == 1 { ", wake +10" } else { "" };
        script += &format!("facts n{node} {node} => send n{node}{wake}\n");
    }
    script += "+10 woke => wake +20000\n+50000 beat n1 => wake +50010\n+50010 beat n2 => wake +70000\n";
    // Six of eight are overdue: the fault may be the control plane's own.
    script += "+119000 beat n1 => wake +119010\n+119000 beat n2\n";
    // Once no more than five are, they are.
    script +=
        "+119000 beat n3 => propose 1: unreachable n4 & unreachable n5 & unreachable n6 & unreachable n7";
    script += " & unreachable n8\n";
    check(&lab, &script);
}
