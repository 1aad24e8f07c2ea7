use prost::Message;
use proto::{Wire, decode_answer, decode_entry, decode_launch, encode_answer, encode_entry};
use scheduler_core::budget::TreeNode;
use scheduler_core::spec::{Launch, Program};

use crate::sample;

#[test]
fn every_command_comes_back_from_the_log_as_it_was() {
    for command in sample::commands() {
        let entry = sample::entry(command);
        assert_eq!(decode_entry(&encode_entry(&entry)).unwrap(), entry);
    }
}

#[test]
fn every_answer_comes_back_as_it_was() {
    for answer in sample::answers() {
        assert_eq!(decode_answer(&encode_answer(&answer)).unwrap(), answer);
    }
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let tree = sample::tree();
    assert_eq!(TreeNode::from_wire(tree.to_wire()).unwrap(), tree);
}

#[test]
fn a_launch_comes_back_as_it_was_and_has_one_encoding() {
    let launch = |program| Launch {
        program,
        working_dir: "/home/ada/run".into(),
        output: Some("out-%j.log".into()),
        env: sample::env(&[("A", "1"), ("B", "")]),
        secrets: vec!["token".into()],
        checkpoint_glob: Some("ckpt/*.done".into()),
    };
    let programs =
        [Program::Command(vec!["python3".into(), "train.py".into()]), Program::Script("#!/bin/sh\n".into())];
    for program in programs {
        let launch = launch(program);
        let bytes = proto::canonical_launch(launch.to_wire()).unwrap();
        assert_eq!(decode_launch(&bytes).unwrap(), launch);
        let mut shuffled = launch.to_wire();
        shuffled.env.reverse();
        assert_eq!(
            proto::canonical_launch(shuffled).unwrap(),
            bytes,
            "the order of variables is not part of a launch"
        );
        assert_eq!(launch.to_wire().encode_to_vec(), bytes);
    }
}
