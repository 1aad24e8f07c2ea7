//! Pools, as they are shown.

use proto::v1::{ClusterPoolList, ClusterPoolView, PoolTypeView, TypeWeightView};

use super::check;
use crate::render;

fn pool(name: &str, clusters: &[&str], gpus: u32, worth_milli: u64) -> ClusterPoolView {
    let clusters = clusters.iter().map(ToString::to_string).collect();
    ClusterPoolView { name: name.into(), clusters, gpus, nodes: gpus / 8, worth_milli, ..Default::default() }
}

#[test]
fn pools_show_their_clusters_and_what_each_type_counts() {
    let of = |gpu_model: &str, gpus, weight_milli| PoolTypeView {
        gpu_model: gpu_model.into(),
        gpus,
        weight_milli,
    };
    let weight = |gpu_type: &str, weight_milli| TypeWeightView { gpu_type: gpu_type.into(), weight_milli };
    let big = ClusterPoolView {
        made: true,
        weights: vec![weight("h100", 1_000), weight("a100", 400), weight("B200", 2_500)],
        types: vec![of("NVIDIA A100-SXM4-80GB", 48, 400), of("NVIDIA H100 80GB HBM3", 48, 1_000)],
        ..pool("big", &["east", "west"], 96, 67_200)
    };
    let list = ClusterPoolList { pools: vec![big, pool("main", &["main"], 16, 8_000)], ..Default::default() };
    check(
        &render::pool::pools(&list),
        "POOL  CLUSTERS    NODES  GPUS  IN SERVICE COUNT
big   east, west     12    96              67.2
main  main            2    16                 8

big: what a GPU counts in charge and in allocation
  NVIDIA A100-SXM4-80GB                       48 GPUs  x 0.4
  NVIDIA H100 80GB HBM3                       48 GPUs  x 1
  B200 x 2.5: no GPU here has that name
",
    );
    let none = ClusterPoolList::default();
    assert!(render::pool::pools(&none).starts_with("no nodes yet"));
}
