//! Each published form, from an excerpt; our own form, there and back.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use scheduler_core::unit::{Span, Timestamp};
use simulator::import::{Options, describe, machines, open, read, write};
use simulator::trace::{Trace, TraceEnd, TraceJob};

use super::{data, notes, reasons, text};

fn excerpt(name: &str) -> Trace {
    open(&data(name), &Options::default()).expect("the excerpt is a trace")
}

#[test]
fn helios_intervals_add_up_from_the_known_start() {
    let trace = excerpt("helios_venus_intervals.csv");
    assert_eq!(trace.import.rows, 300);
    let left: u64 = trace.import.reasons.iter().map(|(_, rows)| rows).sum();
    assert_eq!(u64::try_from(trace.jobs.len()).unwrap() + left, 300);
    assert_eq!(trace.jobs[0].submitted_at.as_millis(), 1_590_623_906_000);
    assert_eq!(trace.jobs[1].submitted_at.since(trace.jobs[0].submitted_at).to_string(), "1m34s");
    assert_eq!(trace.jobs[0].gpu_type.as_deref(), Some("V100"));
}

#[test]
fn philly_attempts_become_jobs_with_teams() {
    let alone = excerpt("philly_attempts.csv");
    assert!(notes(&alone, "no team"));
    let options = Options { companion: Some(data("philly_pass.csv")), ..Options::default() };
    let trace = open(&data("philly_attempts.csv"), &options).unwrap();
    assert_eq!(trace.import.rows, 400);
    let summary = describe(&trace);
    assert_eq!((summary.jobs, summary.jobs_without_team, summary.teams), PHILLY_EXCERPT);
    let total = |trace: &Trace| describe(trace).gpu_ms;
    assert_eq!(total(&trace), total(&alone), "GPU time is the same, however rows are put together");
}

/// Jobs, those without a team, and teams of the excerpt; counted by an independent program.
const PHILLY_EXCERPT: (usize, usize, usize) = (192, 151, 2);

#[test]
fn phillys_json_is_read_an_object_at_a_time() {
    let trace = excerpt("philly_hand_made.json");
    assert_eq!(trace.import.rows, 8);
    assert_eq!(
        reasons(&trace),
        ["1 `start_time` is no time", "1 has no attempt, so nobody knows its GPUs", "1 is no JSON",]
    );
    let lines: Vec<_> = trace.import.skipped.iter().map(|skipped| skipped.line).collect();
    assert_eq!(lines, [6, 30, 34]);
    let jobs: Vec<_> = trace
        .jobs
        .iter()
        .map(|job| {
            let number = job.name.rsplit('_').next().unwrap();
            let waited = job.waited.unwrap().to_string();
            format!(
                "{number}: {} GPUs on {} for {} after {waited}, {:?}",
                job.gpus,
                job.nodes.unwrap(),
                job.duration,
                job.end
            )
        })
        .collect();
    assert_eq!(
        jobs,
        [
            "14199: 2 GPUs on 1 for 1m14s after 30s, Completed",
            "14201: 16 GPUs on 2 for 1h30m after 30m, Failed",
            // It ran when the log was taken: until the latest time in it.
            "14202: 1 GPUs on 1 for 28d21h50m after 1m, Running",
            "14203: 1 GPUs on 1 for 5m after 20m, Completed",
            "14204: 1 GPUs on 1 for 40m after 0s, Completed",
        ]
    );
    assert!(notes(&trace, "1 row, first at line 26: a wait would be negative"), "{:?}", trace.import.notes);
    assert!(notes(&trace, "an attempt without a start"));
    assert_eq!(trace.jobs[0].team.as_deref(), Some("ee9e8c"));
}

#[test]
fn phillys_json_may_stand_on_one_line_or_a_line_an_object() {
    let whole = std::fs::read_to_string(data("philly_hand_made.json")).unwrap();
    let names = |trace: &Trace| trace.jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>();
    let expected = names(&excerpt("philly_hand_made.json"));
    let one_line = whole.replace('\n', " ");
    assert_eq!(names(&text(&one_line, &Options::default()).unwrap()), expected);
    let without_array = whole.trim().trim_start_matches('[').trim_end_matches(']');
    assert_eq!(names(&text(without_array, &Options::default()).unwrap()), expected);
}

#[test]
fn helios_cluster_log_is_read_by_its_columns() {
    let trace = text(
        "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
         1425512,uVMrF,vchbv,x,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n\
         1425513,uVMrF,vchbv,x,0,16,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:45:36,248,0\n\
         1425514,uVMrF,vcJkd,x,8,16,1,COMPLETED,2020-06-09 18:42:00,2020-06-09 18:43:00,2020-06-09 19:43:00,3600,60\n",
        &Options::default(),
    )
    .unwrap();
    assert_eq!(reasons(&trace), ["1 has no GPU"]);
    assert_eq!(trace.jobs[0].team.as_deref(), Some("vchbv"));
    assert_eq!(trace.jobs[0].submitted_at.as_millis(), 1_591_728_087_000);
    assert_eq!(trace.jobs[1].waited, Some(Span::from_secs(60)));
    assert!(notes(&trace, "nobody reads: jobname, cpu_num"), "{:?}", trace.import.notes);
}

#[test]
fn acmes_duration_is_the_time_from_start_to_end() {
    let trace = text(
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,\
         end_time,fail_time,stop_time,duration,queue,gpu_time\n\
         dlctk696s0jbvitv,uf794,1,8,120,1000,100,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,\
         2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,144.0\n\
         123,u5907,4,32,120,1000,100,Pretrain,COMPLETED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:22+08:00,\
         2023-03-01 01:18:22+08:00,,,3600,0,115200\n\
         124,u5907,4,32,120,1000,100,Pretrain,CANCELLED,2023-03-01 00:18:22+08:00,,,,,0,0,0\n",
        &Options::default(),
    )
    .unwrap();
    assert_eq!(reasons(&trace), ["1 never started"]);
    assert_eq!(
        trace.jobs[0].submitted_at.as_millis(),
        1_677_601_102_000,
        "eight hours before the local time"
    );
    assert_eq!(
        (trace.jobs[1].duration, trace.jobs[1].waited),
        (Span::from_secs(8), Some(Span::from_secs(10)))
    );
    assert!(notes(&trace, "has the wait in it"));
    assert_eq!(trace.jobs[0].team.as_deref(), Some("Pretrain"));
}

#[test]
fn kalos_iterations_are_half_seconds() {
    let trace = excerpt("kalos_iterations.csv");
    assert_eq!((trace.import.rows, trace.jobs.len()), (80, 80));
    assert_eq!((trace.jobs[0].duration, trace.jobs[0].gpus), (Span::from_secs(104), 64));
    assert_eq!(trace.jobs[1].submitted_at, Timestamp::from_millis(313_000));
}

#[test]
fn openb_parts_of_gpus_are_whole_ones_with_a_note() {
    let trace = excerpt("openb_pods.csv");
    let left: u64 = trace.import.reasons.iter().map(|(_, rows)| rows).sum();
    assert_eq!(u64::try_from(trace.jobs.len()).unwrap() + left, 240);
    assert!(notes(&trace, "wants a part of one GPU"));
    let pod = trace.jobs.iter().find(|job| job.name == "openb-pod-0017").unwrap();
    assert_eq!(
        (pod.gpus, pod.duration, pod.end),
        (8, Span::from_secs(10_769_854 - 9_437_497), TraceEnd::Completed)
    );
    let machines = machines(&data("openb_nodes.csv")).unwrap();
    assert_eq!((machines.len(), machines[0].gpus, machines[0].gpu_type.as_deref()), (102, 2, Some("P100")));
}

#[test]
fn swf_takes_the_rule_and_the_start_from_its_header() {
    let with = |rule: &str| Options { one_gpu: Some(rule.parse().unwrap()), ..Options::default() };
    let nasa = open(&data("nasa_ipsc.swf"), &with("1 processor")).unwrap();
    assert_eq!((nasa.import.rows, nasa.jobs.len(), nasa.jobs[0].gpus), (150, 150, 128));
    assert_eq!(nasa.jobs[0].submitted_at.as_millis(), 749_458_803_000);
    assert_eq!(nasa.jobs[0].waited, None, "a log without waits has none, rather than none of length");
    let intrepid = open(&data("anl_intrepid.swf.gz"), &with("256 processors")).unwrap();
    assert_eq!((intrepid.jobs.len(), intrepid.jobs[0].gpus, intrepid.jobs[3].gpus), (100, 8, 32));
    assert_eq!(intrepid.jobs[0].time_limit, Some(Span::from_hours(3)));
}

#[test]
fn swf_parts_of_a_stopped_job_are_one_job() {
    let options = Options { one_gpu: Some("1 processor".parse().unwrap()), ..Options::default() };
    let trace = text(
        "; UnixStartTime: 100\n\
         1 0 5 10 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n\
         1 0 5 4 4 -1 -1 4 60 -1 2 1 1 -1 1 -1 -1 -1\n\
         2 1 5 10.5 4 -1 -1 4 60 -1 2 1 1 -1 1 -1 -1 -1\n\
         2 20 5 20 4 -1 -1 4 60 -1 4 1 1 -1 1 -1 -1 -1\n\
         3 30 5 -1 -1 -1 -1 4 60 -1 5 1 1 -1 1 -1 -1 -1\n\
         4 31 5 7 -1 -1 -1 2 60 -1 0 1 -1 -1 9 -1 -1 -1\n\
         5 31 5 7\n",
        &options,
    )
    .unwrap();
    assert_eq!(
        reasons(&trace),
        [
            "1 has another number of fields than 18",
            "1 is a part of a job that has a line of its own",
            "1 was cancelled before it ran",
        ]
    );
    let jobs: Vec<_> =
        trace.jobs.iter().map(|job| (job.name.as_str(), job.duration.as_millis(), job.end)).collect();
    assert_eq!(
        jobs,
        [("1", 10_000, TraceEnd::Completed), ("2", 30_500, TraceEnd::Failed), ("4", 7000, TraceEnd::Failed)]
    );
    assert_eq!(trace.jobs[2].team.as_deref(), Some("q9"), "its queue, as it has no group");
}

#[test]
fn any_csv_is_read_by_usual_or_given_names() {
    let trace = text(
        "id,submitted,wall_min,num_gpus,team,min_runtime,free,time_limit,note\n\
         a,2026-01-05T08:00:00Z,90,4,vision,2h,no,1-00:00:00,\"x, y\"\n\
         b,2026-01-05T09:00:00+01:00,30.5,2,unknown,,yes,,\n",
        &{
            let mut options = Options { format: Some("csv".parse().unwrap()), ..Options::default() };
            options.column("duration=wall_min").unwrap();
            options
        },
    )
    .unwrap();
    let (a, b) = (&trace.jobs[0], &trace.jobs[1]);
    assert_eq!(
        (a.duration, a.min_runtime, a.is_free),
        (Span::from_mins(90), Some(Span::from_hours(2)), Some(false))
    );
    assert_eq!((a.time_limit, a.team.as_deref()), (Some(Span::from_hours(24)), Some("vision")));
    assert_eq!((b.submitted_at, b.duration.as_millis()), (a.submitted_at, 1_830_000));
    assert_eq!((b.team.as_deref(), b.is_free), (None, Some(true)));
    assert!(notes(&trace, "nobody reads: note"));
}

#[test]
fn packed_sources_are_told_by_content_and_hold_the_same() {
    let plain = std::fs::read(data("nasa_ipsc.swf")).unwrap();
    let options = Options { one_gpu: Some("1 processor".parse().unwrap()), ..Options::default() };
    let expected = read("log", plain.as_slice(), &options).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let (left, right) = plain.split_at(plain.len() / 3);
    let skippable: &[u8] = &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let all = [
        gzip(&plain),
        [gzip(left), gzip(right)].concat(),
        zstd(&plain),
        [skippable, &zstd(left), skippable, &zstd(right)].concat(),
    ];
    for (number, packed) in all.iter().enumerate() {
        assert_eq!(read("log", packed.as_slice(), &options).unwrap(), expected, "{number}");
    }
}

fn any_job() -> impl Strategy<Value = TraceJob> {
    let text = "[a-zA-Z0-9_/,\" .é-]{1,12}";
    let end = prop::sample::select(vec![
        TraceEnd::Completed,
        TraceEnd::Failed,
        TraceEnd::Cancelled,
        TraceEnd::TimedOut,
        TraceEnd::NodeFailed,
        TraceEnd::Running,
        TraceEnd::Unknown,
    ]);
    let texts = (text, prop::option::of(text), prop::option::of(text), prop::option::of(text));
    let span = || prop::option::of((0..1_000_000_000_u64).prop_map(Span::from_millis));
    let spans = (span(), span(), span(), 0..1_000_000_000_u64, 0..4_000_000_000_000_u64);
    (texts, spans, 1..5000_u32, prop::option::of(1..600_u32), prop::option::of(any::<bool>()), end).prop_map(
        |(
            (name, team, user, gpu_type),
            (limit, minimum, waited, duration, at),
            gpus,
            nodes,
            is_free,
            end,
        )| {
            let kept = |text: Option<String>| {
                text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
            };
            TraceJob {
                name: kept(Some(name)).unwrap_or_else(|| "x".to_owned()),
                line: 0,
                submitted_at: Timestamp::from_millis(at),
                duration: Span::from_millis(duration),
                gpus,
                nodes,
                gpu_type: kept(gpu_type),
                team: kept(team),
                user: kept(user),
                time_limit: limit,
                min_runtime: minimum,
                is_free,
                waited,
                end,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn our_own_export_comes_back_as_it_was(mut jobs in prop::collection::vec(any_job(), 1..20)) {
        jobs.sort_by_key(|job| job.submitted_at);
        for (line, job) in (3..).zip(&mut jobs) {
            job.line = line;
        }
        let trace = Trace { name: "log".to_owned(), jobs, ..Trace::default() };
        let mut bytes = Vec::new();
        write(&trace, &mut bytes).unwrap();
        prop_assert!(bytes.starts_with(b"# bursar-trace 1\n"));
        let back = read("log", bytes.as_slice(), &Options::default()).unwrap();
        prop_assert_eq!(back.jobs, trace.jobs);
    }
}
