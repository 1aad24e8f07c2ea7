//! Whatever the bytes are, an import answers with a trace or an error, and accounts for each row.

use proptest::prelude::*;
use simulator::import::{Format, Options, describe, read};

use super::data;

/// An excerpt of each format.
fn seeds() -> Vec<(Format, Vec<u8>)> {
    let file = |name| std::fs::read(data(name)).expect("the excerpt can be read");
    let lines = |name, count| {
        file(name).split_inclusive(|byte| *byte == b'\n').take(count).flatten().copied().collect()
    };
    vec![
        (Format::Sacct, lines("eagle_sacct.txt", 20)),
        (Format::Philly, file("philly_hand_made.json")),
        (Format::PhillyPass, lines("philly_pass.csv", 20)),
        (Format::PhillyAttempts, lines("philly_attempts.csv", 20)),
        (
            Format::Helios,
            b"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
              1,u,v,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
                .to_vec(),
        ),
        (Format::HeliosIntervals, lines("helios_venus_intervals.csv", 20)),
        (
            Format::Acme,
            b"job_id,user,node_num,gpu_num,type,state,submit_time,start_time,end_time,duration,queue\n\
              d,u,1,8,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,18,10\n"
                .to_vec(),
        ),
        (Format::KalosIterations, lines("kalos_iterations.csv", 20)),
        (Format::Openb, lines("openb_pods.csv", 20)),
        (Format::Swf, lines("nasa_ipsc.swf", 60)),
        (
            Format::Bursar,
            b"# bursar-trace 1\njob,submitted_ms,duration_ms,gpus,free,end\na,1,2,3,no,completed\n\"b,c\",4,5,6,yes,\n"
                .to_vec(),
        ),
        (Format::Csv, b"id,submit,duration,gpus,min_runtime\na,2026-01-05 08:00:00,1:30:00,4,2h\n".to_vec()),
    ]
}

/// A change to a text, at a place that is drawn.
#[derive(Debug, Clone)]
enum Change {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, String),
    Cut(prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    let nasty = prop::sample::select(vec![
        ",",
        "|",
        "\"",
        "\n",
        "\r\n",
        "-1",
        "99999999999999999999",
        "1e308",
        "NaN",
        "é",
        "\u{0}",
        "{",
        "}",
        "[",
        "]",
        ";",
        "0",
        ".",
        ":",
        "+25:99",
        "2026-02-30",
        "9999-12-31 23:59:59",
        "18446744073709551615",
        "gres/gpu=4294967295",
        "4294967295",
        "315360000",
    ]);
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        (index(), nasty).prop_map(|(at, text)| Change::Insert(at, text.to_owned())),
        index().prop_map(Change::Cut),
        (index(), index()).prop_map(|(from, to)| Change::Repeat(from, to)),
    ]
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            return bytes;
        }
        match change {
            Change::Replace(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Change::Insert(at, text) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, text.bytes());
            }
            Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Change::Repeat(from, to) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                let part = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.extend(part);
            }
        }
    }
    bytes
}

/// Imports and checks what holds for any import.
fn check(format: Option<Format>, bytes: &[u8]) -> Result<(), TestCaseError> {
    for one_gpu in [None, Some("3 processors"), Some("1 node")] {
        let one_gpu = one_gpu.map(|rule| rule.parse().expect("a rule"));
        let options = Options { format, one_gpu, jobs_max: 10_000, ..Options::default() };
        let Ok(trace) = read("log", bytes, &options) else { continue };
        let left: u64 = trace.import.reasons.iter().map(|(_, rows)| rows).sum();
        let taken = u64::try_from(trace.jobs.len()).expect("few jobs");
        prop_assert!(
            taken + left <= trace.import.rows,
            "{taken} taken, {left} left of {}",
            trace.import.rows
        );
        let merges = [Format::Sacct, Format::PhillyAttempts, Format::Swf];
        if format.is_some_and(|format| !merges.contains(&format)) {
            prop_assert_eq!(taken + left, trace.import.rows, "each row is taken or counted");
        }
        prop_assert!(trace.jobs.iter().all(|job| job.gpus > 0 && job.line > 0));
        prop_assert!(trace.jobs.is_sorted_by_key(|job| job.submitted_at));
        let _ = describe(&trace).load_milli(1);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_excerpts_give_a_trace_or_an_error(changes in prop::collection::vec(change(), 1..8)) {
        for (format, bytes) in seeds() {
            let bytes = apply(bytes, &changes);
            check(Some(format), &bytes)?;
            check(None, &bytes)?;
        }
    }

    #[test]
    fn random_bytes_give_a_trace_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check(None, &bytes)?;
        for format in Format::ALL {
            check(Some(format), &bytes)?;
        }
        for magic in [&[0x1f, 0x8b, 8, 0][..], &[0x28, 0xb5, 0x2f, 0xfd], &[0x50, 0x2a, 0x4d, 0x18]] {
            check(Some(Format::Csv), &[magic, &bytes].concat())?;
        }
    }
}

#[test]
fn every_seed_is_a_trace_before_it_is_changed() {
    for (format, bytes) in seeds() {
        let options = Options { format: Some(format), one_gpu: None, ..Options::default() };
        let with_rule = Options { one_gpu: Some("1 processor".parse().unwrap()), ..options.clone() };
        let is_without_gpus = matches!(format, Format::Swf | Format::Sacct);
        let trace = read("log", bytes.as_slice(), if is_without_gpus { &with_rule } else { &options });
        assert!(!trace.unwrap().jobs.is_empty(), "{format}");
    }
}
