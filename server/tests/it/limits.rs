//! Who gets in, and what is refused when there is no room.

use std::io::Write as _;
use std::net::TcpStream;

use proto::v1;

use crate::support::{ADMIN, Lab, alone, refusal, submission, until};

#[test]
fn no_call_without_a_token_that_opens_something() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let ana = lab.client(2, "ana-token").await;
        assert!(ana.submit("science", 1).await.is_ok());
        for token in ["wrong", "", "credential"] {
            let nobody = lab.client(2, token).await;
            let refused =
                nobody.inner.clone().queue(nobody.ask(v1::QueueRequest::default())).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::Unauthenticated);
            assert_eq!(refusal(&refused).code, 1406);
        }
        let bare = ana.inner.clone().queue(v1::QueueRequest::default()).await.unwrap_err();
        assert_eq!(bare.code(), tonic::Code::Unauthenticated);

        let admin = lab.client(0, ADMIN).await;
        let revoke = v1::RevokePrincipalRequest { mark: Some(admin.mark().await), name: "ana".into() };
        admin.inner.clone().revoke_principal(admin.ask(revoke)).await.unwrap();
        let refused = ana.inner.clone().queue(ana.ask(v1::QueueRequest::default())).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "revoked at another replica, refused here");

        // What is no HTTP/2 is no danger.
        let mut garbage = TcpStream::connect(lab.configs[2].listen).unwrap();
        let _ = garbage.write_all(&[0xff; 4096]);
        let ben = lab.client(2, "ben-token").await;
        assert!(ben.submit("robotics", 1).await.is_ok());
        let refused = ben.submit("science", 1).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied, "not a member there: {refused:?}");
    });
}

#[test]
fn full_disk_refuses_new_jobs_and_nothing_else() {
    alone(|lock| async {
        let lab = Lab::founded_with(lock, |config| config.free_disk_min_bytes = u64::MAX).await;
        let ana = lab.client(0, "ana-token").await;
        let refused = ana.submit("science", 1).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refusal(&refused).why.contains("MiB"), "{refused:?}");
        assert!(ana.inner.clone().queue(ana.ask(v1::QueueRequest::default())).await.is_ok());
        crate::support::join(&lab, "node-1").await;
    });
}

#[test]
fn without_a_majority_writes_and_reads_say_so_and_a_stale_read_is_labelled() {
    alone(|lock| async {
        let mut lab = Lab::founded_with(lock, |config| config.write_patience_ms = 1_500).await;
        let leader = lab.leader().await;
        let left = (leader + 1) % 3;
        let ana = lab.client(left, "ana-token").await;
        let job = ana.submit("science", 1).await.unwrap().job;
        for at in (0..3).filter(|at| *at != left) {
            lab.replicas[at].take().unwrap().drop_dead().await;
        }
        until("a replica that knows it is alone", || async {
            let read = v1::ShowJobRequest { read: None, job, task: None };
            ana.inner
                .clone()
                .show_job(ana.ask(read))
                .await
                .err()
                .filter(|e| e.code() == tonic::Code::Unavailable)
        })
        .await;
        let mark = ana.mark().await;
        let refused = ana.inner.clone().submit(ana.ask(submission(mark, "science", 1))).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable);
        assert_eq!(refusal(&refused).code, 1604);
        let read = Some(v1::ReadAs { stale: true });
        let seen = ana
            .inner
            .clone()
            .show_job(ana.ask(v1::ShowJobRequest { read, job, task: None }))
            .await
            .unwrap()
            .into_inner();
        let as_of = seen.as_of.unwrap();
        assert!(as_of.stale && as_of.index > 0);
    });
}
