//! The published toy models of the background: their numbers, to the printed digits.

use scheduler_core::bill::{Bill, BillCause, Restart};
use scheduler_core::decision::{Basis, UseOf};
use scheduler_core::id::BudgetId;
use scheduler_core::spec::Tier;
use scheduler_core::unit::{ChargeMillis, Share, Span, Timestamp};

use crate::lab::{NOW, name, state};

const GPU_HOUR: u128 = 3_600_000 * 1000;

/// Toy 1. Shares of 100 GPUs over 168 h, and what was charged: use, and what is left.
#[test]
fn order_sorts_the_under_used_first() {
    let whole = 100 * 168 * GPU_HOUR;
    let rows = [("a", 35, 5_880), ("b", 35, 2_000), ("c", 30, 5_040), ("d", 10, 1_344)];
    let used = |(n, (_, share, charged)): (u32, (&str, u128, u128))| UseOf {
        budget: BudgetId::new(n),
        charged: ChargeMillis::new(charged * GPU_HOUR),
        set_aside: ChargeMillis::ZERO,
        allocation: ChargeMillis::new(whole * share / 100),
    };
    let uses: Vec<UseOf> = (1..).zip(rows).map(used).collect();
    let mut order: Vec<usize> = (0..4).collect();
    order.sort_by(|a, b| uses[*a].cmp_use(&uses[*b]));
    let names: Vec<&str> = order.iter().map(|n| rows[*n].0).collect();
    // A and C are alike: the same use and no headroom, so the older budget is first.
    assert_eq!(names, ["b", "d", "a", "c"]);
    let percent = |n: usize| uses[n].ppm().expect("it has a share").div_ceil(5_000) / 2;
    assert_eq!([percent(0), percent(1), percent(2), percent(3)], [100, 34, 100, 80]);
    let hours = |n: usize| uses[n].headroom() / i128::try_from(GPU_HOUR).expect("small");
    assert_eq!((hours(1), hours(3)), (3_880, 336));
    // 40 GPUs for 97 hours.
    assert_eq!(hours(1) / 40, 97);
}

/// The shares of toy 1 add up to 110 %: we refuse such a tree and say so.
#[test]
fn the_toys_own_tree_is_refused() {
    let mut world = crate::world::World::new();
    let mut root = crate::world::tree();
    let leaf = root.children[2].clone();
    let child = |level: &str, percent: u32| scheduler_core::budget::TreeNode {
        name: name(level),
        share: Share::from_ppm(percent * 10_000).expect("a share"),
        ..leaf.clone()
    };
    root.children = vec![child("a", 35), child("b", 35), child("c", 30), child("d", 10)];
    let base = world.state.meta.tree;
    let edit = scheduler_core::command::ApplyBudgets { root, base, reason: "as published".into(), at: None };
    let refused = world
        .apply(crate::world::person("ada"), scheduler_core::command::Command::ApplyBudgets(edit))
        .expect_err("it adds up to 110 %");
    assert_eq!(refused.what, "the budgets below `lab` add up to 110%: a 35%, b 35%, c 30%, d 10%");
}

/// Toy 2. The bill of one preemption: restart and half a checkpoint interval.
#[test]
fn a_preemption_costs_its_restart_and_what_was_not_saved() {
    let cases = [
        // Restart, interval, minutes, part of an 8 h slice in tenths of a percent, GPU-h of 64, 256 and 1,024 in tenths.
        (5, 15, 125, 26, [133, 533, 2_133]),
        (10, 30, 250, 52, [267, 1_067, 4_267]),
        (20, 60, 500, 104, [533, 2_133, 8_533]),
    ];
    for (restart, interval, tenth_minutes, of_slice, hours) in cases {
        for (gpus, tenths) in [64, 256, 1_024].into_iter().zip(hours) {
            let bill = Bill {
                budget: BudgetId::new(1),
                user: name("ann"),
                pool: name("main"),
                tier: Tier::Funded,
                gpus,
                cause: BillCause::Share,
                noticed_at: Timestamp::from_millis(1),
                saved_at: None,
                age: Span::from_millis(interval * 60_000 / 2),
                basis: Basis::Reported,
                restart: Restart::Measured(Span::from_mins(restart)),
                taken_for: None,
                decision: None,
                is_wasted: Some(false),
            };
            let lost = bill.lost().get();
            assert_eq!(lost / u64::from(gpus), tenth_minutes * 6_000);
            assert_eq!(round(lost * 10, 3_600_000), tenths, "{gpus} GPUs");
            assert_eq!(round(tenth_minutes * 6_000 * 1000, 8 * 3_600_000), of_slice);
        }
    }
}

fn round(a: u64, b: u64) -> u64 {
    (a * 2 + b) / (b * 2)
}

/// Toy 4. Two groups with 60 and 40 %: the second alone uses all of it; when the first returns, new placements favour it
/// until the window evens out.
#[test]
fn the_whole_cluster_for_who_works_and_then_the_first_until_the_window_is_even() {
    let text = |waits: &str| {
        format!(
            "node n1 8 h100
             budget a 60
             budget b 40
             runs 90.1 b 4 n1 0-3 for=96h was
             {waits}"
        )
    };
    let alone = state(&text("job 5 b 8"));
    assert_eq!(crate::lab::planned(&alone), "5 on n1:0,1,2,3,4,5,6,7\n");
    // Both wait: the first one's job goes first, whoever asked earlier.
    let both = state(&text("job 5 b 8\n job 6 a 8"));
    assert_eq!(crate::lab::planned(&both), "6 on n1:0,1,2,3,4,5,6,7\n");
    // The second ran ahead while it was alone; the first used nothing.
    let of = |id: u32| {
        let window = both.meta.settings.window;
        let pool = name("main");
        both.books.use_of(BudgetId::new(id), &pool, Tier::Funded, &both.budgets, window, NOW)
    };
    assert!(of(1).cmp_use(&of(2)).is_lt());
    // The first runs ahead in its turn, and once its use has passed the other's, the other goes first again.
    let even = state(&format!("{}\n runs 91.1 a 4 n1 4-7 for=150h was", text("job 5 b 8\n job 6 a 8")));
    assert_eq!(crate::lab::planned(&even), "5 on n1:0,1,2,3,4,5,6,7\n");
}
