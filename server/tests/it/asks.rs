//! Arrays, jobs after jobs and jobs that begin later, through real replicas.

use proto::v1;
use tonic::{Code, Status};

use crate::support::{Client, Lab, alone, submission};

async fn submit(
    client: &Client,
    change: impl FnOnce(&mut v1::JobRequest),
) -> Result<v1::SubmitReply, Status> {
    let mut request = submission(client.mark().await, "science", 1);
    change(request.job.as_mut().unwrap());
    client.inner.clone().submit(client.ask(request)).await.map(tonic::Response::into_inner)
}

async fn task(client: &Client, job: u32, task: u32) -> Result<v1::JobView, Status> {
    let request = v1::ShowJobRequest { read: None, job, task: Some(task) };
    client.inner.clone().show_job(client.ask(request)).await.map(tonic::Response::into_inner)
}

async fn cancel(client: &Client, job: u32) -> v1::CancelReply {
    let request =
        v1::CancelRequest { mark: Some(client.mark().await), job, now: false, reason: String::new() };
    client.inner.clone().cancel(client.ask(request)).await.unwrap().into_inner()
}

#[test]
fn an_array_is_one_job_in_sum_and_each_task_has_its_own_words() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let ana = lab.client(0, "ana-token").await;
        let reply = submit(&ana, |job| job.array = Some("10-40:10%2".into())).await.unwrap();
        let tasks = reply.receipt.unwrap().tasks.unwrap();
        assert_eq!((tasks.indexes.as_str(), tasks.count, tasks.at_once), ("10-40:10%2", 4, 2));
        let whole = ana.job(reply.job).await;
        assert_eq!((whole.state.as_str(), whole.tasks.unwrap().states[0].tasks), ("waiting", 4));
        let second = task(&ana, reply.job, 20).await.unwrap();
        assert_eq!((second.shown_as, second.state), (format!("{}[20]", reply.job), "waiting".to_owned()));
        let last = task(&ana, reply.job, 40).await.unwrap();
        assert_eq!((last.shown_as.as_str(), last.task), (format!("{}[40]", reply.job).as_str(), Some(40)));
        assert_eq!(task(&ana, reply.job, 15).await.unwrap_err().code(), Code::NotFound);
        let queue = v1::QueueRequest::default();
        let queue = ana.inner.clone().queue(ana.ask(queue)).await.unwrap().into_inner();
        assert_eq!((queue.rows.len(), queue.rows[0].job), (1, reply.job));
        assert_eq!(cancel(&ana, last.job).await.state, "ended");
        assert_eq!(task(&ana, reply.job, 40).await.unwrap().end.as_deref(), Some("cancelled"));
        assert_eq!(cancel(&ana, reply.job).await.state, "ended");
        assert_eq!(ana.job(reply.job).await.end.as_deref(), Some("cancelled"));
    });
}

#[test]
fn a_job_says_what_it_waits_for() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let ana = lab.client(0, "ana-token").await;
        let first = submit(&ana, |_| ()).await.unwrap().job;
        let after = |job, ok| v1::AfterJob { job, ok, task: None };
        let reply = submit(&ana, |job| job.after = vec![after(first, true)]).await.unwrap();
        let receipt = reply.receipt.unwrap();
        assert_eq!((receipt.state.as_str(), receipt.after[0].met.as_str()), ("held", "open"));
        assert_eq!(ana.job(reply.job).await.reason, "held.dependency");
        cancel(&ana, first).await;
        let held = ana.job(reply.job).await;
        assert_eq!((held.state.as_str(), held.after[0].met.as_str()), ("held", "never"));
        let refused = submit(&ana, |job| job.after = vec![after(9_999, false)]).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let refused = submit(&ana, |job| job.array = Some("9-0".into())).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    });
}
