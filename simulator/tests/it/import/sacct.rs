//! Slurm's accounting in all the forms that people export.

use simulator::import::{Options, describe, open};
use simulator::trace::{Trace, TraceEnd};

use super::{data, notes, reasons, text};

fn import(log: &str) -> Trace {
    text(log, &Options::default()).expect("the log is a trace")
}

#[test]
fn an_excerpt_of_a_sites_accounting_gives_its_gpu_jobs() {
    let trace = open(&data("eagle_sacct.txt"), &Options::default()).unwrap();
    assert_eq!(
        (trace.import.rows, trace.jobs.len(), reasons(&trace)),
        (84, 4, vec!["80 has no GPU".to_owned()])
    );
    let job = trace.jobs.iter().find(|job| job.name == "532501").unwrap();
    assert_eq!((job.gpus, job.end, job.duration.to_string().as_str()), (2, TraceEnd::TimedOut, "15m2s"));
    assert_eq!((job.team.as_deref(), job.user.as_deref()), (Some("account0001"), Some("user0018")));
    assert_eq!(job.time_limit.unwrap().to_string(), "15m");
    assert!(notes(&trace, "JobName, Partition, QOS, ExitCode"), "{:?}", trace.import.notes);
}

#[test]
fn the_rule_for_one_gpu_counts_nodes_or_processors() {
    let with = |rule: &str| {
        let options = Options { one_gpu: Some(rule.parse().unwrap()), ..Options::default() };
        describe(&open(&data("eagle_sacct.txt"), &options).unwrap())
    };
    let (nodes, processors) = (with("1 node"), with("18 processors"));
    assert_eq!((nodes.jobs, processors.jobs), (84, 84));
    assert_eq!(processors.gpu_ms, nodes.gpu_ms * 2);
}

#[test]
fn steps_pending_and_never_started_jobs_are_counted_and_not_taken() {
    let trace = import(
        "JobID|User|Account|State|Submit|Start|End|Elapsed|Timelimit|AllocTRES|ReqTRES\n\
         10|ann|lab|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00|UNLIMITED|cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1|\n\
         10.batch|||COMPLETED|2026-01-01T00:01:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00||cpu=8,gres/gpu=4,node=1|\n\
         10.extern|||COMPLETED|2026-01-01T00:01:00|2026-01-01T00:01:00|2026-01-01T01:01:00|01:00:00||cpu=8,gres/gpu=4,node=1|\n\
         11_[5-10%2]|ann|lab|PENDING|2026-01-01T00:00:00|Unknown|Unknown|00:00:00|1-00:00:00||gres/gpu=1\n\
         11_4|ann|lab|RUNNING|2026-01-01T00:00:00|2026-01-01T00:00:30|Unknown|2-00:00:00|3-00:00:00|gres/gpu=1|gres/gpu=1\n\
         12|bob|lab|CANCELLED by 75200|2026-01-01T00:02:00|None|2026-01-01T00:03:00|00:00:00|01:00:00||gres/gpu=8\n\
         13|bob|lab|CANCELLED by 75200|2026-01-01T00:02:00|2026-01-01T00:03:00|2026-01-01T00:08:00|05:00|01:00:00||gres/gpu=8\n",
    );
    assert_eq!(reasons(&trace), ["2 is a step of a job, which has a row of its own", "2 never started"]);
    let skipped: Vec<_> = trace.import.skipped.iter().map(|skipped| skipped.line).collect();
    assert_eq!(skipped, [3, 4, 5, 7]);
    let jobs: Vec<_> = trace.jobs.iter().map(|job| (job.name.as_str(), job.gpus, job.end)).collect();
    assert_eq!(
        jobs,
        [("10", 4, TraceEnd::Completed), ("11_4", 1, TraceEnd::Running), ("13", 8, TraceEnd::Cancelled)]
    );
    assert_eq!(trace.jobs[0].gpu_type.as_deref(), Some("a100"));
    assert_eq!(trace.jobs[2].duration.to_string(), "5m");
}

#[test]
fn the_runs_of_a_requeued_job_are_one_job() {
    let trace = import(
        "JobIDRaw|JobID|User|Account|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|AllocTRES\n\
         20|20|ann|lab|PREEMPTED|1000|1000|1060|4660|3600|1440|2|gres/gpu=16\n\
         20|20|ann|lab|NODE_FAIL|4660|4660|5000|6000|1000|1440|2|gres/gpu=16\n\
         20|20|ann|lab|COMPLETED|6000|6000|7000|9500|2500|1440|2|gres/gpu=16\n\
         20|20|zoe|other|COMPLETED|900000|900000|900000|900010|10|1440|1|gres/gpu=1\n",
    );
    assert_eq!(trace.jobs.len(), 2, "a number that was used again by somebody else is another job");
    let job = &trace.jobs[0];
    assert_eq!((job.submitted_at.as_millis(), job.duration.to_string().as_str()), (1_000_000, "1h58m20s"));
    assert_eq!((job.end, job.waited.unwrap().to_string().as_str()), (TraceEnd::Completed, "1m"));
    assert_eq!((job.time_limit.unwrap().to_string().as_str(), job.nodes), ("1d", Some(2)));
    assert!(notes(&trace, "2 rows, first at line 3: is a further run"), "{:?}", trace.import.notes);
}

#[test]
fn a_job_that_was_held_is_submitted_when_it_could_begin() {
    let trace = import(
        "JobIDRaw|User|State|Submit|Eligible|Start|End|AllocTRES\n\
         1|ann|COMPLETED|1000|5000|5060|6060|gres/gpu=1\n",
    );
    let job = &trace.jobs[0];
    assert_eq!((job.submitted_at.as_millis(), job.waited.unwrap().to_string().as_str()), (5_000_000, "1m"));
    assert!(notes(&trace, "could not begin when it was submitted"));
}

#[test]
fn old_releases_other_separators_and_trailing_ones_are_read() {
    let old =
        import("JobID|User|State|Submit|Start|End|NNodes|AllocGRES|\n1|ann|COMPLETED|10|20|30|4|gpu:2|\n");
    assert_eq!(old.jobs[0].gpus, 8, "GPUs of a node, on each node");
    for delimiter in [";", ",", "\t"] {
        let log = "JobID|User|State|Submit|Start|End|AllocGRES\n1|ann|COMPLETED|10|20|30|gpu:2\n";
        assert_eq!(import(&log.replace('|', delimiter)).jobs.len(), 1, "{delimiter:?}");
    }
    let log = "JobID^User^State^Submit^Start^End^AllocTRES\n1^ann^COMPLETED^10^20^30^gres/gpu=1\n";
    let options = Options {
        format: Some("sacct".parse().unwrap()),
        delimiter: Some("^".to_owned()),
        ..Options::default()
    };
    assert_eq!(text(log, &options).unwrap().jobs.len(), 1);
}

#[test]
fn a_separator_in_a_name_breaks_its_row_alone() {
    let trace = import(
        "JobID|JobName|State|Submit|Start|End|AllocTRES\n\
         1|a|b|COMPLETED|10|20|30|gres/gpu=1\n\
         2|c|COMPLETED|10|20|30|gres/gpu=1\n",
    );
    assert_eq!(trace.jobs.len(), 1);
    let shown = &trace.import.skipped[0];
    assert_eq!(
        (shown.line, shown.reason.as_str()),
        (2, "has another number of fields than the header: `8 instead of 7`")
    );
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let check = |log: &str, expected: &[&str]| {
        let options = Options { format: Some("sacct".parse().unwrap()), ..Options::default() };
        let error = text(log, &options).unwrap_err().to_string();
        expected.iter().for_each(|part| assert!(error.contains(part), "{error}"));
    };
    check("532207|ann|COMPLETED|10|20|30\n", &["log:1", "`JobID`", "532207", "(without -n)"]);
    check("JobID|State|Submit|Start|End\n1|COMPLETED|1|2|3\n", &["`AllocTRES`", "the rule for one GPU"]);
    check("JobID|State|Submit|AllocTRES\n1|COMPLETED|1|gres/gpu=1\n", &["`ElapsedRaw`"]);
    check(
        "JobID|State|Submit|Start|End|AllocTRES\n1|COMPLETED|1|2|3|cpu=4\n",
        &["none of its 1 rows", "line 2: has no GPU", "AccountingStorageTRES"],
    );
}
