//! Grants, edits that begin later, what was owed and delivered, waits and what-if, through real replicas.

use proto::v1;
use tonic::Code;

use crate::support::{ADMIN, Client, Lab, alone, join, link, until};

async fn grant(
    client: &Client,
    to: &str,
    share_ppm: u32,
    (begins_at, until_at): (Option<u64>, u64),
) -> Result<v1::GrantView, tonic::Status> {
    let request = v1::BudgetGrantRequest {
        mark: Some(client.mark().await),
        budget: to.into(),
        from_budget: Some("robotics".into()),
        share_ppm,
        begins_at,
        until_at,
        reason: "a deadline".into(),
    };
    client.inner.clone().budget_grant(client.ask(request)).await.map(tonic::Response::into_inner)
}

async fn tree(client: &Client) -> v1::BudgetTreeView {
    let request = v1::BudgetTreeRequest::default();
    client.inner.clone().budget_tree(client.ask(request)).await.unwrap().into_inner()
}

async fn own_and_with_grants(client: &Client, path: &str) -> (u32, u32) {
    let view = tree(client).await;
    let row = view.pools[0].rows.iter().find(|row| row.path == path).unwrap();
    (row.own_ppm, row.with_grants_ppm)
}

async fn said(client: &Client, action: &str) -> Vec<v1::AuditView> {
    let request = v1::AuditRequest { action: Some(action.into()), ..v1::AuditRequest::default() };
    client.inner.clone().audit(client.ask(request)).await.unwrap().into_inner().rows
}

async fn now(client: &Client) -> u64 {
    client.inner.clone().hello(v1::HelloRequest {}).await.unwrap().into_inner().cluster_time_at
}

/// Writes a small entry until something is so: time in state goes on with entries.
async fn as_time_goes_on<T>(client: &Client, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    until(what, || async {
        let request =
            v1::EndBudgetGrantRequest { mark: Some(client.mark().await), grant: 900, reason: "none".into() };
        client.inner.clone().end_budget_grant(client.ask(request)).await.unwrap_err();
        look().await
    })
    .await
}

#[test]
fn share_is_granted_for_a_time_and_an_edit_begins_later() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let admin = lab.client(lab.follower().await, ADMIN).await;
        let ana = lab.client(0, "ana-token").await;
        let end = now(&admin).await + 3_600_000;
        let refused = grant(&ana, "science", 10_000, (None, end)).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let refused = grant(&admin, "science", 500_000, (None, end)).await.unwrap_err();
        assert!(refused.message().contains("would give 50%"), "{refused:?}");
        let made = grant(&admin, "science", 100_000, (None, end)).await.unwrap();
        assert_eq!((made.state.as_str(), made.from_budget.as_deref()), ("on", Some("robotics")));
        assert_eq!(own_and_with_grants(&ana, "science").await, (600_000, 700_000));
        assert_eq!(own_and_with_grants(&ana, "robotics").await, (400_000, 300_000));
        let request = v1::EndBudgetGrantRequest {
            mark: Some(admin.mark().await),
            grant: made.grant,
            reason: "it was met".into(),
        };
        let ended = admin.inner.clone().end_budget_grant(admin.ask(request)).await.unwrap().into_inner();
        assert_eq!((ended.state.as_str(), ended.ended_by.as_deref()), ("over", Some("root-admin")));
        assert_eq!(own_and_with_grants(&ana, "science").await, (600_000, 600_000));

        let mut file = tree(&admin).await.tree.unwrap();
        file.children[0].share_ppm = 500_000;
        let plan = v1::BudgetPlanRequest { tree: Some(file.clone()) };
        let plan = admin.inner.clone().budget_plan(admin.ask(plan)).await.unwrap().into_inner();
        let request = v1::BudgetApplyRequest {
            mark: Some(admin.mark().await),
            tree: Some(file),
            revision: plan.revision,
            reason: "the new year".into(),
            at: Some(now(&admin).await + 6_000),
        };
        let reply = admin.inner.clone().budget_apply(admin.ask(request)).await.unwrap().into_inner();
        assert!(reply.edit.is_some() && reply.revision == plan.revision, "{reply:?}");
        assert_eq!(tree(&ana).await.edits[0].changes[0].after, "50%");
        as_time_goes_on(&admin, "the edit's time", || async {
            (own_and_with_grants(&ana, "science").await == (500_000, 500_000)).then_some(())
        })
        .await;
        let rows = until("the audit of it", || async {
            let rows = said(&ana, "budget").await;
            rows.iter().any(|row| row.action == "budget.edit-applied").then_some(rows)
        })
        .await;
        let applied = rows.iter().find(|row| row.action == "budget.edit-applied").unwrap();
        assert_eq!((applied.actor.as_str(), applied.reason.as_str()), ("root-admin", "the new year"));
        assert_eq!((applied.changes[0].before.as_str(), applied.changes[0].after.as_str()), ("60%", "50%"));
        let granted: Vec<&str> = rows.iter().map(|row| row.action.as_str()).collect();
        assert!(granted.contains(&"budget.grant") && granted.contains(&"budget.grant-end"), "{granted:?}");
        lab.settled().await;
    });
}

#[test]
fn usage_waits_and_what_if_are_told() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 4).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let job = ana.submit("science", 3).await.unwrap().job;
        agent.start().await;
        ana.job_in(job, "running").await;
        let second = ana.submit("science", 2).await.unwrap().job;

        let request = v1::BudgetUsageRequest { budget: Some("science".into()), ..Default::default() };
        let usage = until("time that is owed", || async {
            let asked = ana.ask(request.clone());
            let view = ana.inner.clone().budget_usage(asked).await.unwrap().into_inner();
            let row = view.pools.first().and_then(|pool| pool.budgets.first().cloned());
            row.filter(|row| row.delivered_gpu_ms > 0)
        })
        .await;
        assert!(
            usage.demand_gpu_ms >= usage.delivered_gpu_ms && usage.owed_gpu_ms <= usage.allocation_gpu_ms
        );
        let delivered: u64 = usage.hours.iter().map(|hour| hour.delivered_gpu_ms).sum();
        assert_eq!(delivered, usage.delivered_gpu_ms, "rows add up");

        let request = v1::WaitsRequest { by: "budget".into(), ..Default::default() };
        let waits = ana.inner.clone().waits(ana.ask(request)).await.unwrap().into_inner();
        let row = &waits.rows[0];
        assert_eq!((row.key.as_str(), row.started_jobs, row.waiting_jobs), ("science", 1, 1));

        let ask = |gpus| v1::WhatIfRequest { job: second, gpus: Some(gpus), ..Default::default() };
        let answer = ana.inner.clone().what_if(ana.ask(ask(1))).await.unwrap().into_inner();
        assert!(answer.effect && answer.sentence.starts_with("starts now"), "{answer:?}");
        let answer = ana.inner.clone().what_if(ana.ask(ask(3))).await.unwrap().into_inner();
        assert!(!answer.effect && answer.sentence.starts_with("no effect, because"), "{answer:?}");
        let refused = ana.inner.clone().what_if(ana.ask(ask(5))).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "no node has five: {refused:?}");
        let request = v1::ShowBudgetRequest { read: None, budget: "science".into() };
        let shown = ana.inner.clone().show_budget(ana.ask(request)).await.unwrap().into_inner();
        assert_eq!((shown.pools[0].protected_gpus, shown.members), (3, vec!["ana".to_owned()]));
    });
}
