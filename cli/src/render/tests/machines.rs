//! Nodes, replicas, principals, events.

use proto::v1::{
    ClusterView, EventView, GpuView, JoiningView, MembersView, NodeList, NodeView, OkToStopView,
    PrincipalList, PrincipalView, ReplicaView,
};

use super::{NOW, as_of, check, look, pool};
use crate::render;

fn node() -> NodeView {
    NodeView {
        schema: String::new(),
        as_of: as_of(),
        node: 1,
        name: "node-01".into(),
        pool: "main".into(),
        state: "ready".into(),
        gpus: 8,
        protected: 2,
        interruptible: 0,
        free_tier: 1,
        idle: 5,
        empty_by_at: Some(NOW + 3_600_000),
        gpu_model: Some("H100".into()),
        agent_version: "0.1.0".into(),
        containment: "tree".into(),
        simulated: true,
        gpu_list: vec![GpuView {
            slot: 0,
            uuid: "GPU-00000000-0000-0000-0000-000000000000".into(),
            model: "NVIDIA H100 80GB HBM3".into(),
            state: "4190.1".into(),
            holding: "protected".into(),
            until_at: Some(NOW + 3_600_000),
            next: None,
        }],
        cpus: 96,
        memory_bytes: 1 << 40,
        machine: "m".into(),
        boot: "b".into(),
        ..NodeView::default()
    }
}

#[test]
fn nodes_show_what_runs_and_what_ails_them() {
    let ailing = NodeView {
        name: "node-02".into(),
        state: "unreachable".into(),
        trouble: vec!["gpu 3: one retired page".into(), "slow".into()],
        empty_by_at: None,
        ..node()
    };
    let list = NodeList { schema: String::new(), as_of: as_of(), nodes: vec![node(), ailing] };
    check(
        &render::node::nodes(&list, &look()),
        "NODE     STATE        GPUS  PROTECTED  INTERRUPTIBLE  FREE TIER  IDLE  EMPTY BY  HEALTH
node-01  ready           8          2              0          1     5  15:02     ok
node-02  unreachable     8          2              0          1     5  -         gpu 3: one re…
",
    );
    assert!(render::node::nodes(&list, &super::wide()).contains("0.1.0"));
    check(
        &render::node::node(&node(), &look()),
        "node-01 is READY

  pool         main
  GPUs         8 H100, simulated
  machine      96 cores, 1 TiB
  agent        0.1.0, process tree (weaker than cgroup)
  health       ok

GPU  UUID                                      MODEL                  STATE   HOLDING    UNTIL
  0  GPU-00000000-0000-0000-0000-000000000000  NVIDIA H100 80GB HBM3  4190.1  protected  15:02
",
    );
}

#[test]
fn a_node_that_takes_no_work_says_who_wanted_that_and_when_it_is_empty() {
    let closed = NodeView {
        name: "node-17".into(),
        state: "draining".into(),
        cordon_reason: Some("a process that cannot be ended".into()),
        cordoned_since_at: Some(NOW),
        drain_reason: Some("RMA 3381".into()),
        drained_by: Some("otto".into()),
        drain_begins_at: Some(NOW + 1_800_000),
        empty_by_at: Some(NOW + 3_600_000),
        gpu_list: vec![GpuView { next: Some("4191.1".into()), ..node().gpu_list.remove(0) }],
        ..node()
    };
    check(
        &render::node::node(&closed, &look()),
        "node-17 is DRAINING

  pool         main
  GPUs         8 H100, simulated
  machine      96 cores, 1 TiB
  agent        0.1.0, process tree (weaker than cgroup)
  health       ok
  cordoned     by the control plane since 14:02: a process that cannot be ended
  drained      by otto, from 14:32: RMA 3381
  empty by     15:02

GPU  UUID                                      MODEL         STATE   HOLDING    UNTIL  NEXT
  0  GPU-00000000-0000-0000-0000-000000000000  NVIDIA H100…  4190.1  protected  15:02  4191.1
",
    );
    let list = NodeList { schema: String::new(), as_of: as_of(), nodes: vec![closed] };
    let text = render::node::nodes(&list, &look());
    assert!(text.contains("draining") && text.contains("15:02     a process"), "{text}");
}

#[test]
fn cluster_shows_who_leads_and_who_lags() {
    let replica = |replica, role: &str, behind| ReplicaView {
        replica,
        client: format!("127.0.0.1:740{replica}"),
        peer: format!("127.0.0.1:741{replica}"),
        role: role.into(),
        version: Some("0.1.0".into()),
        applied: Some(8_841_207 - behind),
        behind: Some(behind),
        votes: true,
        ok_to_stop: replica == 2,
        ok_to_stop_says: if replica == 2 { "not counted on now; r1 goes on" } else { "r2 is catching up" }
            .into(),
        snapshot: Some(8_800_000),
        log_bytes: Some(48 << 20),
        disk_free_bytes: Some(412 << 30),
        up_ms: Some(12 * 86_400_000 + 3 * 3_600_000),
        ..ReplicaView::default()
    };
    let view = ClusterView {
        as_of: as_of(),
        cluster: "c".into(),
        epoch: 1,
        replicas: vec![replica(1, "leader", 0), replica(2, "follower", 40_112)],
        pools: vec![pool()],
        agents_connected: 31,
        agents: 32,
        jobs_waiting: 3,
        jobs_running: 12,
        last_plan: Some("0.4 s ago, took 11 ms".into()),
        alarms: vec!["r2 is far behind".into()],
        term: 4,
        led_for_ms: Some(7_200_000),
        ..ClusterView::default()
    };
    check(
        &render::cluster::status(&view, &look()),
        "accepting work, scheduling
as of 14:02:11
h100-a  256 GPUs: 152 protected, 56 interruptible, 40 free tier, 8 unavailable, 0 idle

REPLICA  ROLE         UP    APPLIED  BEHIND   SNAPSHOT     LOG  DISK FREE  OK TO STOP
r1       leader    12d3h  8,841,207       0  8,800,000  48 MiB    412 GiB  no: r2 is catching up
r2       follower  12d3h  8,801,095  40,112  8,800,000  48 MiB    412 GiB  yes: not counted on now…

leader   r1 for 2h, elected in term 4
agents   31 of 32 connected; 1 not
jobs     3 waiting, 12 running
plan     0.4 s ago, took 11 ms
alarm    r2 is far behind
",
    );
    let mut joining = view.clone();
    joining.replicas[1] = ReplicaView {
        role: "learner".into(),
        votes: false,
        snapshot_sent: Some(3),
        snapshot_parts: Some(9),
        ..replica(2, "learner", 40_112)
    };
    let text = render::cluster::status(&joining, &look());
    assert!(text.contains("learner") && text.contains("snapshot 3/9"), "{text}");
    let safe = ClusterView { safe_mode: Some("why".into()), ..view };
    assert!(render::cluster::status(&safe, &look()).starts_with("SAFE MODE"));
}

#[test]
fn whether_replicas_can_be_spared_is_said_with_what_to_wait_for() {
    let view = OkToStopView {
        ok: false,
        replicas: vec![1, 2],
        says: "r3 alone would be left, 2 are needed".into(),
        wait_for: vec!["r3 is catching up, 40112 entries behind".into()],
        warnings: vec!["r1 leads: stopped by TERM it hands over first".into()],
        together: vec![3],
        ..OkToStopView::default()
    };
    check(
        &render::cluster::ok_to_stop(&view),
        "stop r1, r2: no; r3 alone would be left, 2 are needed
  wait for  r3 is catching up, 40112 entries behind
  know that r1 leads: stopped by TERM it hands over first
",
    );
    let fine = OkToStopView {
        ok: true,
        replicas: vec![2],
        says: "r1 and r3 go on".into(),
        wait_for: vec![],
        ..view
    };
    check(
        &render::cluster::ok_to_stop(&fine),
        "stop r2: yes; r1 and r3 go on
  with it   r3
  know that r1 leads: stopped by TERM it hands over first
",
    );
}

#[test]
fn replicas_that_join_say_how_far_they_are() {
    let one = |replica, votes, behind, sent| JoiningView {
        replica,
        client: format!("h{replica}:1"),
        votes,
        behind,
        snapshot_sent: sent,
        snapshot_parts: sent.map(|_| 9),
        ..JoiningView::default()
    };
    let joining = vec![
        one(1007, false, None, None),
        one(1008, false, Some(40_112), Some(3)),
        one(1009, false, Some(1_200), None),
        one(1010, true, Some(0), None),
    ];
    let view = MembersView { joining, ..MembersView::default() };
    assert_eq!(
        render::cluster::joining(&view),
        "r1007 at h1007:1: invited, not heard of yet; r1008 at h1008:1: is sent a snapshot, part 3 of 9; \
         r1009 at h1009:1: 1,200 entries behind; r1010 at h1010:1: votes"
    );
}

#[test]
fn principals_and_events_are_one_line_each() {
    let one = PrincipalView {
        name: "ana".into(),
        account: "ana".into(),
        operator: false,
        revoked: false,
        owns: vec![],
        member_of: vec!["science/agents".into()],
    };
    let list = PrincipalList { schema: String::new(), as_of: as_of(), principals: vec![one.clone()] };
    check(
        &render::principal::principals(&list, &look()),
        "NAME  ACCOUNT  ROLE  OWNS  MEMBER OF\nana   ana      user        science/agents\n",
    );
    check(
        &render::principal::principal(&one),
        "ana\n\n  jobs run as  ana\n  role         user\n  owns         -\n  member of    science/agents\n",
    );
    let event = EventView {
        index: 12,
        n: 0,
        at: NOW,
        kind: "job.started".into(),
        actor: "leader".into(),
        job: Some(4190),
        attempt: Some(1),
        sentence: "started on node-01".into(),
        ..EventView::default()
    };
    check(
        &render::events::event(&event, &look()),
        "14:02:11  job.started        4190.1       started on node-01\n",
    );
}
