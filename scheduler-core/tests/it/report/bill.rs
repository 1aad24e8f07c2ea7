//! The bill adds up, by whatever it is asked.

use scheduler_core::bill::{Bill, BillCause, Restart};
use scheduler_core::decision::Basis;
use scheduler_core::id::{AttemptId, AttemptNo, BudgetId, JobId};
use scheduler_core::report::{Bills, By, Key, Lost, Size, bill};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{GpuMillis, Span, Timestamp};

use crate::lab::{NOW, name, state};
use crate::random::Random;

const HOUR: u64 = 3_600_000;

/// A bill of `gpus` that lost `age` and a restart of five minutes, measured.
fn one(gpus: u32, age: Span) -> Bill {
    Bill {
        budget: BudgetId::new(1),
        user: name("ann"),
        pool: name("main"),
        tier: Tier::Funded,
        gpus,
        cause: BillCause::Share,
        noticed_at: NOW.minus(Span::from_mins(11)),
        saved_at: None,
        age,
        basis: Basis::Reported,
        restart: Restart::Measured(Span::from_mins(5)),
        taken_for: Some(AttemptId { job: JobId::new(4190), no: AttemptNo::new(1) }),
        decision: None,
        is_wasted: Some(false),
    }
}

fn put(state: &mut State, ended_at: Timestamp, job: u32, bill: Bill) {
    let attempt = AttemptId { job: JobId::new(job), no: AttemptNo::new(1) };
    state.bills.insert((ended_at, attempt), bill);
}

/// A funded budget that got 8 GPUs for 5 h, a free-tier one that got 2 for 2 h, and three preemptions.
fn lab() -> State {
    let mut lab = state(
        "node n1 16 h100
         budget a 60
         budget b 40
         runs 90.1 a 8 n1 0-7 for=5h was
         runs 91.1 b 2 n1 8-9 for=2h free was",
    );
    let ago = |mins| NOW.minus(Span::from_mins(mins));
    put(&mut lab, ago(10), 1, one(8, Span::from_mins(25)));
    let free = Bill {
        budget: BudgetId::new(2),
        user: name("bob"),
        tier: Tier::Free,
        cause: BillCause::FreeTier,
        basis: Basis::Unknown,
        restart: Restart::Expected(Span::from_mins(5)),
        is_wasted: Some(true),
        ..one(2, Span::from_mins(55))
    };
    put(&mut lab, ago(60), 2, free);
    let drained = Bill {
        cause: BillCause::Drain,
        basis: Basis::Declared,
        restart: Restart::None,
        taken_for: None,
        is_wasted: None,
        ..one(1, Span::from_mins(30))
    };
    put(&mut lab, ago(120), 3, drained);
    let open = Bill {
        budget: BudgetId::new(2),
        cause: BillCause::Turn,
        restart: Restart::Measured(Span::from_mins(1)),
        is_wasted: None,
        ..one(64, Span::ZERO)
    };
    put(&mut lab, ago(8 * 24 * 60), 4, open);
    lab
}

fn key_text(key: &Key) -> String {
    match key {
        Key::Cause(cause) => format!("{cause:?}"),
        Key::Tier(tier) => format!("{tier:?}"),
        Key::Budget(budget) => format!("#{budget}"),
        Key::User(user) => user.to_string(),
        Key::Size(size) => size.as_str().to_owned(),
        Key::Basis(basis) => format!("{basis:?}"),
    }
}

fn cost_text(lost: &Lost) -> String {
    let minutes = |time: GpuMillis| time.get() / 60_000;
    let restart = lost.restart.map_or("-".to_owned(), |span| span.to_string());
    let ppm = lost.ppm().map_or("-".to_owned(), |ppm| ppm.to_string());
    format!(
        "{} lost {} of {} GPU-min, {ppm} ppm, {} wasted, {} open, restart {restart} of {}",
        lost.preemptions,
        minutes(lost.lost),
        minutes(lost.delivered),
        lost.wasted,
        lost.open,
        lost.measured
    )
}

fn check(bills: &Bills, expected: &str) {
    let rows = bills.rows.iter().map(|row| {
        let keys: Vec<String> = row.keys.iter().map(key_text).collect();
        format!("{}: {}", keys.join("/"), cost_text(&row.lost))
    });
    let shown: Vec<String> = rows.chain([format!("all: {}", cost_text(&bills.total))]).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, expected, "found\n{}", shown.join("\n"));
}

fn since(hours: u64) -> Timestamp {
    NOW.minus(Span::from_hours(hours))
}

#[test]
fn a_bill_by_tier_and_budget_says_what_each_was_delivered() {
    // 8 GPUs x (25 + 5) min = 240; 2 x (55 + 5) = 120; 1 x 30 without a restart = 30.
    let lab = lab();
    check(
        &bill(&lab, NOW, since(6), &[By::Tier]),
        "Funded: 2 lost 270 of 2400 GPU-min, 112500 ppm, 0 wasted, 0 open, restart 5m of 1
         Free: 1 lost 120 of 240 GPU-min, 500000 ppm, 1 wasted, 0 open, restart - of 0
         all: 3 lost 390 of 2640 GPU-min, 147727 ppm, 1 wasted, 0 open, restart 5m of 1",
    );
    check(
        &bill(&lab, NOW, since(1), &[By::Budget, By::Tier]),
        "#1/Funded: 1 lost 240 of 480 GPU-min, 500000 ppm, 0 wasted, 0 open, restart 5m of 1
         #2/Free: 0 lost 0 of 120 GPU-min, 0 ppm, 0 wasted, 0 open, restart - of 0
         all: 1 lost 240 of 600 GPU-min, 400000 ppm, 0 wasted, 0 open, restart 5m of 1",
    );
}

#[test]
fn a_bill_by_cause_size_user_and_basis_names_only_what_lost() {
    let lab = lab();
    check(
        &bill(&lab, NOW, since(6), &[By::Cause]),
        "Share: 1 lost 240 of 2640 GPU-min, 90909 ppm, 0 wasted, 0 open, restart 5m of 1
         FreeTier: 1 lost 120 of 2640 GPU-min, 45454 ppm, 1 wasted, 0 open, restart - of 0
         Drain: 1 lost 30 of 2640 GPU-min, 11363 ppm, 0 wasted, 0 open, restart - of 0
         all: 3 lost 390 of 2640 GPU-min, 147727 ppm, 1 wasted, 0 open, restart 5m of 1",
    );
    check(
        &bill(&lab, NOW, since(6), &[By::User, By::Size, By::Basis]),
        "ann/1 GPU/Declared: 1 lost 30 of 2640 GPU-min, 11363 ppm, 0 wasted, 0 open, restart - of 0
         ann/2 to 8 GPUs/Reported: 1 lost 240 of 2640 GPU-min, 90909 ppm, 0 wasted, 0 open, restart 5m of 1
         bob/2 to 8 GPUs/Unknown: 1 lost 120 of 2640 GPU-min, 45454 ppm, 1 wasted, 0 open, restart - of 0
         all: 3 lost 390 of 2640 GPU-min, 147727 ppm, 1 wasted, 0 open, restart 5m of 1",
    );
}

#[test]
fn the_dearest_preemption_is_named_and_nothing_older_than_the_window_counts() {
    let lab = lab();
    let all = bill(&lab, NOW, Timestamp::ZERO, &[]);
    assert_eq!(all.since, NOW.minus(lab.meta.settings.window));
    assert_eq!(all.total.preemptions, 3);
    assert_eq!((all.rows.len(), all.rows[0].lost), (1, all.total));
    let biggest = all.biggest.expect("three were billed");
    assert_eq!(biggest.attempt.to_string(), "1.1");
    assert_eq!(
        (biggest.ended_at, biggest.bill.lost()),
        (NOW.minus(Span::from_mins(10)), GpuMillis::new(4 * HOUR))
    );
}

#[test]
fn a_bill_of_nothing_is_nothing() {
    let lab = state("node n1 1 h100\nbudget a 100");
    let none = bill(&lab, NOW, since(1), &[By::Cause]);
    assert_eq!((none.rows.len(), none.total, none.biggest), (0, Lost::default(), None));
    assert_eq!(none.total.ppm(), None);
}

#[test]
fn rows_add_up_to_the_total_by_whatever_they_are_grouped() {
    for seed in 0..40_u64 {
        let mut random = Random::new(seed);
        let mut lab = lab();
        for job in 100..160 {
            let ended_at = NOW.minus(Span::from_millis(random.below(10 * HOUR)));
            put(&mut lab, ended_at, job, any(&mut random));
        }
        let kinds = [By::Cause, By::Tier, By::Budget, By::User, By::Size, By::Basis];
        for first in kinds {
            for second in kinds {
                let by = [first, second];
                let found = bill(&lab, NOW, since(random.below(9) + 1), &by);
                let sum = |of: fn(&Lost) -> u64| found.rows.iter().map(|row| of(&row.lost)).sum::<u64>();
                let laws: [fn(&Lost) -> u64; 5] = [
                    |lost| lost.preemptions.into(),
                    |lost| lost.lost.get(),
                    |lost| lost.wasted.into(),
                    |lost| lost.open.into(),
                    |lost| lost.measured.into(),
                ];
                for law in laws {
                    assert_eq!(sum(law), law(&found.total), "by {by:?}, seed {seed}");
                }
                if by == [By::Budget, By::Tier] || by == [By::Tier, By::Tier] {
                    assert_eq!(sum(|lost| lost.delivered.get()), found.total.delivered.get(), "seed {seed}");
                }
                assert!(found.rows.is_sorted_by_key(|row| row.keys.clone()), "seed {seed}");
            }
        }
    }
}

fn any(random: &mut Random) -> Bill {
    let minutes = Span::from_mins(random.below(90));
    let any_user = name(if random.one_in(2) { "ann" } else { "bob" });
    Bill {
        budget: BudgetId::new(*random.pick(&[1, 2])),
        user: any_user,
        tier: *random.pick(&[Tier::Free, Tier::Funded]),
        cause: *random.pick(&[BillCause::Operator, BillCause::Turn, BillCause::Drain]),
        basis: *random.pick(&[Basis::Unknown, Basis::Declared, Basis::Reported]),
        restart: *random.pick(&[Restart::Measured(minutes), Restart::Expected(minutes), Restart::None]),
        is_wasted: *random.pick(&[None, Some(true), Some(false)]),
        ..one(*random.pick(&[1, 2, 8, 9, 64]), minutes)
    }
}

#[test]
fn sizes_have_no_gap() {
    let sizes = [0, 1, 2, 8, 9, 63, 64, u32::MAX].map(Size::of);
    use Size::{Below64, From64, One, ToEight};
    assert_eq!(sizes, [One, One, ToEight, ToEight, Below64, Below64, From64, From64]);
}
