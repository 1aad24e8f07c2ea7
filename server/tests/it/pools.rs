//! Pools of several clusters, through a real replica.

use proto::v1;
use tonic::{Code, Status};

use crate::support::{ADMIN, Client, Lab, alone};

async fn set(
    client: &Client,
    name: &str,
    clusters: &[&str],
    weights: &[(&str, u32)],
) -> Result<v1::ClusterPoolList, Status> {
    let weight = |(kind, milli): &(&str, u32)| v1::TypeWeightView {
        gpu_type: (*kind).to_owned(),
        weight_milli: *milli,
    };
    let request = v1::SetPoolRequest {
        mark: Some(client.mark().await),
        name: name.to_owned(),
        clusters: clusters.iter().map(ToString::to_string).collect(),
        weights: weights.iter().map(weight).collect(),
    };
    client.inner.clone().set_pool(client.ask(request)).await.map(tonic::Response::into_inner)
}

#[test]
fn an_operator_sets_pools_and_everybody_reads_them() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let (ceo, ana) = (lab.client(0, ADMIN).await, lab.client(0, "ana-token").await);
        let made = set(&ceo, "big", &["east", "west"], &[("h100", 1_000), ("a100", 400)]).await.unwrap();
        let big = made.pools.iter().find(|pool| pool.name == "big").unwrap();
        assert_eq!(
            (big.made, big.clusters.as_slice()),
            (true, ["east".to_owned(), "west".to_owned()].as_slice())
        );
        assert_eq!((big.weights.len(), big.weights[1].weight_milli), (2, 400));
        let read = v1::ListPoolsRequest { read: None };
        let list = ana.inner.clone().list_pools(ana.ask(read)).await.unwrap().into_inner();
        assert_eq!(list.pools, made.pools);
        let code = |answer: Result<v1::ClusterPoolList, Status>| answer.unwrap_err().code();
        assert_eq!(code(set(&ana, "big", &[], &[]).await), Code::PermissionDenied);
        assert_eq!(code(set(&ceo, "other", &["west"], &[]).await), Code::Aborted);
        assert_eq!(code(set(&ceo, "big", &["No"], &[]).await), Code::InvalidArgument);
        assert_eq!(code(set(&ceo, "big", &[], &[("h100", 0)]).await), Code::InvalidArgument);
        let gone = set(&ceo, "big", &[], &[]).await.unwrap();
        assert!(gone.pools.iter().all(|pool| pool.name != "big"));
    });
}
