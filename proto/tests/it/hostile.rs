use proptest::prelude::*;
use proto::v1;

use crate::sample;

fn launch() -> v1::Launch {
    v1::Launch {
        program: Some(v1::launch::Program::Command(v1::Command { argv: vec!["true".into()] })),
        working_dir: "/".into(),
        ..v1::Launch::default()
    }
}

/// The refusal of a launch after one change.
fn refusal(change: impl FnOnce(&mut v1::Launch)) -> String {
    let mut launch = launch();
    change(&mut launch);
    proto::canonical_launch(launch).expect_err("it is refused").to_string()
}

#[test]
fn launches_that_cannot_be_are_refused_with_the_field() {
    let var = |name: &str, value: &str| v1::EnvVar { name: name.into(), value: value.into() };
    assert_eq!(refusal(|l| l.program = None), "`command` is missing");
    assert!(refusal(|l| l.working_dir = "run".into()).starts_with("`working_dir`: a path from `/`"));
    assert!(refusal(|l| l.working_dir = "/a\nb".into()).contains("control characters"));
    assert!(refusal(|l| l.env = vec![var("BURSAR_JOB_ID", "1")]).contains("set by Bursar"));
    assert!(refusal(|l| l.env = vec![var("CUDA_VISIBLE_DEVICES", "0")]).contains("set by Bursar"));
    assert!(refusal(|l| l.env = vec![var("1A", "")]).contains("not the name of a variable"));
    assert!(refusal(|l| l.env = vec![var("A", ""), var("A", "")]).contains("stands twice"));
    assert!(refusal(|l| l.env = vec![var("A", &"x".repeat(65_536))]).contains("at most 64 KiB"));
    let script = |text: String| move |l: &mut v1::Launch| l.program = Some(v1::launch::Program::Script(text));
    assert!(refusal(script("x".repeat(48 * 1024 + 1))).contains("at most 48 KiB"));
}

#[test]
fn a_cut_entry_is_refused_and_never_read_as_another() {
    for command in sample::commands() {
        let entry = sample::entry(command);
        let bytes = proto::encode_entry(&entry);
        for cut in 0..bytes.len() {
            assert_ne!(proto::decode_entry(&bytes[..cut]).ok(), Some(entry.clone()));
        }
    }
}

#[test]
fn a_batch_in_a_batch_is_refused() {
    use scheduler_core::command::Command;
    let inner = Command::Batch(vec![]);
    let outer = Command::Batch(vec![(sample::entry(inner.clone()).actor, inner)]);
    assert!(proto::decode_entry(&proto::encode_entry(&sample::entry(outer))).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_a_value_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = proto::decode_entry(&bytes);
        let _ = proto::decode_answer(&bytes);
        let _ = proto::decode_launch(&bytes);
        let _ = proto::snapshot::read(&mut bytes.as_slice());
    }

    #[test]
    fn any_flipped_bit_of_an_entry_is_an_error_or_a_value(at in 0_usize..4096, bit in 0_u8..8) {
        for command in sample::commands() {
            let mut bytes = proto::encode_entry(&sample::entry(command));
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            let _ = proto::decode_entry(&bytes);
        }
    }
}
