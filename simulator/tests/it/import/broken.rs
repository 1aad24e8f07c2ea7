//! What is wrong with a file is said with where, what, and what to do.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use simulator::import::{Error, Options, open, read};

use super::{data, notes, reasons, text};

fn check(error: &Error, expected: &[&str]) {
    let message = error.to_string();
    for part in expected {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

fn refused(log: &str, expected: &[&str]) {
    check(&text(log, &Options::default()).expect_err("the log is refused"), expected);
}

#[test]
fn a_file_that_is_not_there_and_a_folder_are_said() {
    let error = open(&data("no-such-file"), &Options::default()).unwrap_err();
    check(&error, &["failed to open", "no-such-file"]);
    check(&open(&data(""), &Options::default()).unwrap_err(), &["failed to open"]);
}

#[test]
fn an_empty_file_and_one_of_another_kind_are_refused() {
    refused("", &["log is empty"]);
    refused(" \n\n", &["log is empty"]);
    refused("hello\nworld\n", &["log:1", "`hello`", "sacct, philly"]);
    refused("time,value\n1,2\n", &["log:1", "no known format", "give the columns of a CSV by name"]);
    let error = read("log", [0xff_u8, 0xfe, 0x00, 0x41].as_slice(), &Options::default()).unwrap_err();
    check(&error, &["log:1", "no known format"]);
}

#[test]
fn an_unknown_format_lists_those_there_are() {
    check(&"slurm".parse::<simulator::import::Format>().unwrap_err(), &["`slurm`", "sacct", "bursar, csv"]);
    check(&"many nodes".parse::<simulator::import::OneGpu>().unwrap_err(), &["`many nodes`", "`1 node`"]);
    check(&"0 nodes".parse::<simulator::import::OneGpu>().unwrap_err(), &["`0 nodes`"]);
    check(&Options::default().column("gpu=x").unwrap_err(), &["`gpu=x`", "FIELD=COLUMN", "gpus, nodes"]);
}

#[test]
fn two_traces_of_one_form_need_a_name() {
    let whole = std::fs::read_to_string(data("helios_venus_intervals.csv")).unwrap();
    refused(&whole, &["log:1", "philly-attempts", "helios-intervals", "name one of them"]);
}

#[test]
fn a_missing_column_is_named_with_those_there_are() {
    let options = Options { format: Some("helios".parse().unwrap()), ..Options::default() };
    let error = text("job_id,user,gpu_num\n1,a,2\n", &options).unwrap_err();
    check(&error, &["log:1", "`vc` and `state`", "job_id, user, gpu_num", "its header"]);
    let mut options = Options { format: Some("csv".parse().unwrap()), ..Options::default() };
    check(
        &text("a,b\n1,2\n", &options).unwrap_err(),
        &["for submit and for gpus", "duration", "submit=COLUMN"],
    );
    options.column("gpus=cards").unwrap();
    check(
        &text("submit,duration,gpu\n1,2,3\n", &options).unwrap_err(),
        &["`cards`, which was given for gpus"],
    );
}

#[test]
fn rows_that_cannot_be_used_are_counted_and_shown_with_line_and_value() {
    let trace = text(
        "job_id,submit_s,duration_s,gpus\n\
         a,0,60,1\n\
         b,1,-60,1\n\
         c,2,60,many\n\
         d,3,60\n\
         \n\
         e,yesterday,60,1\n\
         f,5,60,0\n\
         g,6,99999999999,1\n\
         h,7,60,4294967296\n\
         \"i,8,60,1\n\
         j,9,60,1\n",
        &Options::default(),
    )
    .unwrap();
    assert_eq!((trace.import.rows, trace.jobs.len()), (10, 2));
    let shown: Vec<_> =
        trace.import.skipped.iter().map(|skipped| format!("{} {}", skipped.line, skipped.reason)).collect();
    assert_eq!(
        shown,
        [
            "3 `duration_s` is no length of time: `-60`",
            "4 `gpus` is no whole number from 0: `many`",
            "5 has another number of fields than the header: `3 instead of 4`",
            "7 `submit_s` is no time (seconds, or as 2026-01-31 18:41:01): `yesterday`",
            "8 has no GPU",
            "9 `duration_s` is no length of time: `99999999999`",
            "10 `gpus` is no whole number from 0: `4294967296`",
            "11 has a quote that is not closed on its line: `\"i,8,60,1`",
        ]
    );
    assert_eq!(reasons(&trace)[0], "2 `duration_s` is no length of time");
}

#[test]
fn only_so_many_rows_of_a_reason_are_shown_but_all_are_counted() {
    let rows: String = (0..1000).map(|at| format!("{at},60,0\n")).collect();
    let trace = text(&format!("submit,duration,gpus\n{rows}1,60,1\n"), &Options::default()).unwrap();
    assert_eq!((trace.import.skipped.len(), reasons(&trace)), (5, vec!["1000 has no GPU".to_owned()]));
}

#[test]
fn times_out_of_order_are_sorted_and_noted_with_a_line() {
    let trace = text("submit,duration,gpus\n10,1,1\n5,1,2\n20,1,3\n7,1,4\n", &Options::default()).unwrap();
    assert_eq!(trace.jobs.iter().map(|job| job.gpus).collect::<Vec<_>>(), [2, 4, 1, 3]);
    assert!(
        notes(&trace, "out of order: 2 jobs") && notes(&trace, "first at line 3"),
        "{:?}",
        trace.import.notes
    );
    let refusal = "submit,start,end,gpus\n10,5,20,1\n";
    refused(refusal, &["none of its 1 rows", "line 2: started before it was submitted"]);
}

#[test]
fn jobs_without_gpus_alone_are_no_trace() {
    refused(
        "submit,duration,gpus\n1,1,0\n2,1,0\n",
        &["none of its 2 rows", "2 as line 2: has no GPU", "the rule for one GPU"],
    );
    refused("submit,duration,gpus\n", &["none of its 0 rows", "a header only"]);
}

#[test]
fn a_log_of_processors_needs_a_rule() {
    let error = open(&data("nasa_ipsc.swf"), &Options::default()).unwrap_err();
    check(&error, &["nasa_ipsc.swf", "how many processors", "`256 processors`"]);
}

#[test]
fn a_packed_file_cut_short_is_said_with_the_last_whole_line() {
    let plain = std::fs::read(data("helios_venus_intervals.csv")).unwrap();
    // So much that the cut is far beyond what is looked at to tell the format.
    let many: Vec<u8> = plain.iter().copied().chain(plain.repeat(60).into_iter().skip(1)).collect();
    let options = Options { format: Some("helios-intervals".parse().unwrap()), ..Options::default() };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&many).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = compress_to_vec(many.as_slice(), CompressionLevel::Fastest);
    for (packed, test) in [(gzip, "gzip -t"), (zstd, "zstd -t")] {
        for part in [2, 3, 100] {
            let error = read("log", &packed[..packed.len() - packed.len() / part], &options).unwrap_err();
            let is_form = matches!(error, Error::Form { .. });
            assert!(is_form || matches!(error, Error::Packed { .. }), "{error}");
            if !is_form {
                check(&error, &["log: the", "cut short or damaged after line", test]);
            }
        }
    }
}

#[test]
fn an_interval_that_nobody_can_read_stops_the_import() {
    let error = {
        let options = Options { format: Some("helios-intervals".parse().unwrap()), ..Options::default() };
        let whole = std::fs::read_to_string(data("helios_venus_intervals.csv")).unwrap();
        text(&whole.replacen(",94,", ",?,", 1), &options).unwrap_err()
    };
    check(&error, &["log:3", "`interval`", "`?`", "repair the line"]);
}

#[test]
fn json_that_ends_early_or_has_something_else_in_it_is_said() {
    let whole = std::fs::read_to_string(data("philly_hand_made.json")).unwrap();
    refused(&whole[..500], &["log:", "does not end", "cut short"]);
    refused(whole.trim().trim_end_matches(']'), &["the array does not end"]);
    refused("[\n1, 2\n]\n", &["log:2", "`1` where a job should begin"]);
    let empty = format!("[{}]", r#"{"jobid": "x", "attempts": []},"#.repeat(3));
    refused(&empty, &["none of its 3 rows", "has no attempt"]);
}

#[test]
fn our_own_export_of_a_newer_version_is_refused() {
    refused("# bursar-trace 2\njob\n", &["log:1", "version 2", "version 1", "a newer one"]);
    refused("# bursar-trace x\njob\n", &["log:1", "the first line is"]);
    refused("# bursar-trace 1\njob,gpus\na,1\n", &["`submitted_ms` and `duration_ms`"]);
}

#[test]
fn a_log_of_more_jobs_than_memory_is_refused_early() {
    let rows: String = (0..100).map(|at| format!("{at},60,1\n")).collect();
    let log = format!("submit,duration,gpus\n{rows}");
    let error = text(&log, &Options { jobs_max: 50, ..Options::default() }).unwrap_err();
    check(&error, &["log:52", "more than 50 jobs", "`since` and `until`"]);
}

#[test]
fn a_line_without_end_is_passed_over_without_being_held() {
    let long = "x".repeat(3 * 1024 * 1024);
    let trace =
        text(&format!("submit,duration,gpus\n1,60,1\n{long}\n2,60,1\n"), &Options::default()).unwrap();
    assert_eq!((trace.jobs.len(), reasons(&trace)), (2, vec!["1 is longer than 1 MiB".to_owned()]));
    assert_eq!(trace.jobs[1].line, 4);
}
