//! A control plane begins once, by whoever can read a replica's data directory.

use proto::v1;

use crate::support::{ADMIN, Lab, alone, refusal};

#[test]
fn founding_needs_the_setup_secret_and_happens_once() {
    alone(|lock| async {
        let lab = Lab::waiting(lock, 3).await;
        let nobody = lab.client(0, "x").await;
        let hello = nobody.inner.clone().hello(v1::HelloRequest {}).await.unwrap().into_inner();
        assert_eq!((hello.role.as_str(), hello.cluster), ("waiting", None));

        let wrong = lab.found("not the secret").await.unwrap_err();
        assert_eq!(wrong.code(), tonic::Code::Unauthenticated);
        let others = lab.found(&lab.setup_secret(1)).await.unwrap_err();
        assert_eq!(others.code(), tonic::Code::Unauthenticated, "each replica has its own");

        let secret = lab.setup_secret(0);
        let cluster = lab.found(&secret).await.unwrap();
        assert_eq!(lab.found(&secret).await.unwrap(), cluster, "a repeated founding is the same one");
        crate::support::until("all setup secrets removed", || async {
            let is_gone = |at: usize| !lab.configs[at].data.join("setup-secret").exists();
            (0..3).all(is_gone).then_some(())
        })
        .await;

        for at in 0..3 {
            let admin = lab.client(at, ADMIN).await;
            let status = v1::ClusterStatusRequest { read: None };
            let status = admin.inner.clone().cluster_status(admin.ask(status)).await.unwrap().into_inner();
            assert_eq!(status.cluster, cluster);
            assert_eq!(status.replicas.iter().filter(|replica| replica.role == "leader").count(), 1);
            let me =
                admin.inner.clone().who_am_i(admin.ask(v1::WhoAmIRequest {})).await.unwrap().into_inner();
            assert!(me.operator && me.owns == ["lab"], "{me:?}");
        }
        let hello = nobody.inner.clone().hello(v1::HelloRequest {}).await.unwrap().into_inner();
        assert_eq!((hello.cluster, hello.replicas.len()), (Some(cluster), 3));
    });
}

#[test]
fn replica_that_waits_refuses_everything_but_hello() {
    alone(|lock| async {
        let lab = Lab::waiting(lock, 1).await;
        let admin = lab.client(0, ADMIN).await;
        let refused = admin.inner.clone().queue(admin.ask(v1::QueueRequest::default())).await.unwrap_err();

        assert_eq!(refusal(&refused).code, 1603, "not founded yet");
    });
}
