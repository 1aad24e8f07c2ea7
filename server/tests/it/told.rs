//! What people are told beside the jobs: a budget's place, when a job is likely to start, and edits that came to nothing.

use proto::v1;

use crate::support::{ADMIN, Client, Lab, alone, join, link, until};

async fn tree(client: &Client) -> v1::BudgetTreeView {
    let request = v1::BudgetTreeRequest::default();
    client.inner.clone().budget_tree(client.ask(request)).await.unwrap().into_inner()
}

/// Gives `science` another share, at once or after so long.
async fn share(client: &Client, share_ppm: u32, after_ms: Option<u64>) -> v1::BudgetApplyReply {
    let hello = client.inner.clone().hello(v1::HelloRequest {}).await.unwrap().into_inner();
    let mut file = tree(client).await.tree.unwrap();
    file.children.iter_mut().find(|child| child.name == "science").unwrap().share_ppm = share_ppm;
    let plan = v1::BudgetPlanRequest { tree: Some(file.clone()) };
    let plan = client.inner.clone().budget_plan(client.ask(plan)).await.unwrap().into_inner();
    let request = v1::BudgetApplyRequest {
        mark: Some(client.mark().await),
        tree: Some(file),
        revision: plan.revision,
        reason: "the new year".into(),
        at: after_ms.map(|ms| hello.cluster_time_at + ms),
    };
    client.inner.clone().budget_apply(client.ask(request)).await.unwrap().into_inner()
}

/// The alarms about edits.
async fn alarms(client: &Client) -> Vec<String> {
    let request = v1::ClusterStatusRequest::default();
    let status = client.inner.clone().cluster_status(client.ask(request)).await.unwrap().into_inner();
    status.alarms.into_iter().filter(|alarm| alarm.starts_with("edit ")).collect()
}

async fn take_away(client: &Client, edit: u32) -> Result<(), tonic::Status> {
    let request =
        v1::CancelBudgetEditRequest { mark: Some(client.mark().await), edit, reason: "seen".into() };
    client.inner.clone().cancel_budget_edit(client.ask(request)).await.map(drop)
}

#[test]
fn edit_that_did_not_hold_when_its_time_came_is_an_alarm_until_somebody_has_seen_it() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let admin = lab.client(lab.follower().await, ADMIN).await;
        let edit = share(&admin, 500_000, Some(5_000)).await.edit.unwrap();
        assert_eq!(alarms(&admin).await, Vec::<String>::new());
        // Somebody else was faster.
        share(&admin, 550_000, None).await;
        let alarm = until("the alarm", || async {
            // Time in state goes on with entries: this one is refused.
            take_away(&admin, 900).await.unwrap_err();
            alarms(&admin).await.pop()
        })
        .await;
        let said = format!(
            "edit {edit} of the budgets, by root-admin, was dropped when its time came: the share of `lab/science` was \
             changed since"
        );
        assert!(alarm.starts_with(&said), "{alarm}");
        let seen = tree(&admin).await;
        assert_eq!(seen.edits.iter().map(|edit| edit.state.as_str()).collect::<Vec<_>>(), ["dropped"]);
        assert_eq!(seen.pools[0].rows.iter().find(|row| row.path == "science").unwrap().own_ppm, 550_000);
        take_away(&admin, edit).await.unwrap();
        assert_eq!(alarms(&admin).await, Vec::<String>::new());
    });
}

async fn explain(client: &Client, subject: &str, futures: u32) -> v1::Explanation {
    let request = v1::ExplainRequest { read: None, subject: subject.into(), futures: Some(futures) };
    client.inner.clone().explain(client.ask(request)).await.unwrap().into_inner()
}

#[test]
fn place_of_a_budget_and_the_likely_start_of_a_job_are_told() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 4).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let job = ana.submit("science", 3).await.unwrap().job;
        agent.start().await;
        ana.job_in(job, "running").await;
        let waits = ana.submit("science", 2).await.unwrap().job;

        let science = explain(&ana, "science", 0).await;
        assert!(science.sentence.starts_with("science is at 0.0"), "{}", science.sentence);
        let fact = |what: &str| {
            let all = science.facts.iter().flat_map(|group| &group.facts);
            all.filter(|fact| fact.what.starts_with(what)).map(|fact| fact.value.clone()).next()
        };
        // Its protection of an hour runs already.
        let is_less = |value: &str| value == "3.00 GPU-h" || value.starts_with("2.");
        assert!(fact("set aside").as_deref().is_some_and(is_less), "{:?}", science.facts);
        assert_eq!(fact("is charged now").as_deref(), Some("3 GPUs each hour"), "{:?}", science.facts);

        assert_eq!(explain(&ana, &waits.to_string(), 0).await.likely, None, "nobody asked for futures");
        let (told, likely) = until("enough futures in the time there is", || async {
            let told = explain(&ana, &waits.to_string(), 20).await;
            let likely = told.likely.clone().unwrap();
            likely.nothing.is_empty().then_some((told, likely))
        })
        .await;
        let now = told.as_of.unwrap().time_at;
        assert!((1..=20).contains(&likely.futures) && likely.confidence_percent == 80, "{likely:?}");
        // One job with a minimum of an hour is before it: never at once, and within a day at the latest.
        assert!(likely.from_at.is_none_or(|from| now < from && from <= likely.until_at), "{likely:?}");
        assert!(likely.from_at.is_some() || likely.without > 0, "{likely:?}");
        assert_eq!(likely.until_at.saturating_sub(now) / 3_600_000, 24, "{likely:?}");
        assert_eq!(explain(&ana, &job.to_string(), 20).await.likely, None, "it runs");
    });
}
