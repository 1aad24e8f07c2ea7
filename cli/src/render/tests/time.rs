//! Cluster time.

use proto::v1::{ClusterTimeView, ProtectionEnd, ReplicaClock, SetTimeView};

use super::{NOW, as_of, check, look};
use crate::render;

#[test]
fn clocks_say_how_far_they_are_from_cluster_time() {
    let clock = |replica: u64, role: &str, ahead: i64| ReplicaClock {
        replica,
        role: role.into(),
        cluster_time_at: Some(NOW),
        wall_at: Some(NOW.saturating_add_signed(ahead)),
        wall_ahead_ms: Some(ahead),
        boot: Some("4b2f41c5-8d31-4a6c-9c46-6ef9b93a5d0e".into()),
        up_ms: Some(90_061_000),
        source: Some("kept".into()),
    };
    let asking =
        ReplicaClock { source: None, cluster_time_at: None, ..clock(2, "follower", 40 * 365 * 86_400_000) };
    let gone = ReplicaClock { replica: 3, role: "no answer".into(), ..ReplicaClock::default() };
    let view = ClusterTimeView {
        as_of: as_of(),
        cluster_time_at: NOW,
        entry_at: NOW - 4_000,
        wall_at: Some(NOW + 120),
        wall_ahead_ms: Some(120),
        slew_ppm: 1_000,
        replicas: vec![clock(1, "leader", 120), asking, gone],
        alarms: vec!["the wall clocks of replicas are apart: r2 is 14600d ahead of r1".into()],
        agents: 31,
        agents_ahead_ms: Some(-7_200_000),
        ..ClusterTimeView::default()
    };
    check(
        &render::time::clocks(&view, &look()),
        "cluster time  2026-11-29 14:02:11 +00:00
last entry    2026-11-29 14:02:07 +00:00
wall clocks   2026-11-29 14:02:11 +00:00, in step; slewed by +1000 in 1,000,000
agents        31 agents carried it when they linked: 2 h behind

REPLICA  ROLE       WALL CLOCK                  OFFSET              UP  TIME FROM    BOOT
r1       leader     14:02:11                    in step        1 d 1 h  kept         4b2f41c…
r2       follower   2066-11-19 14:02:11 +00:00  14600 d ahead  1 d 1 h  asks for it  4b2f41c…
r3       no answer  -                           -                    -  -            -
alarm    the wall clocks of replicas are apart: r2 is 14600d ahead of r1
",
    );
}

#[test]
fn setting_time_says_what_it_ends() {
    let end = ProtectionEnd {
        at: NOW + 3_600_000,
        attempt: "4190.1".into(),
        budget: "language/posttrain".into(),
        gpus: 8,
    };
    let view = SetTimeView {
        as_of: as_of(),
        from_at: NOW,
        to_at: NOW + 7_200_000,
        ahead_ms: 7_200_000,
        protections: vec![end],
        shortened: 2,
        booked_gpu_ms: 16 * 3_600_000,
        drains: 1,
        join_tokens: 2,
        requests: 31,
        alarm: Some("cluster time goes on from the last entry".into()),
        ..SetTimeView::default()
    };
    check(
        &render::time::set(&view, true, &look()),
        "cluster time would go 2 h forward at once
from  2026-11-29 14:02:11 +00:00
to    2026-11-29 16:02:11 +00:00
  protection: 1 job's ends by it; 2 jobs' go on, 2 h shorter
  charge: 16 GPU-h are booked without having been used, and charged where funded
  budgets: their window looks back from then; the first 2 h of it leave it
  due by then: 1 drain, 2 join tokens
  request ids: 31 stay known as long as without it
  PROTECTION OF  BUDGET              GPUS  UNTIL
  4190.1         language/posttrain     8  15:02
this ends the alarm: cluster time goes on from the last entry
time never goes back: this cannot be undone
",
    );
    let none = SetTimeView { ahead_ms: 0, to_at: NOW, alarm: None, ..view };
    check(
        &render::time::set(&none, false, &look()),
        "cluster time stays as it is
from  2026-11-29 14:02:11 +00:00
to    2026-11-29 14:02:11 +00:00
",
    );
}
