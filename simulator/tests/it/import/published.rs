//! The published traces import with the counts of their description.
//!
//! They are too big for this repository. Where a folder has them (`raw/` below the folder that `BURSAR_TRACES` names, or
//! below `shared/traces` of the checkout), they are read whole; excerpts are in `tests/data`.

use std::path::{Path, PathBuf};

use scheduler_core::unit::Timestamp;
use simulator::import::{Field, Format, Options, Summary, describe, machines, open};
use simulator::trace::{Trace, TraceEnd};
use xtask::built::workspace_root;
use xtask::not_available;

/// Returns a file of the folder, or says why it cannot be read.
fn published(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("BURSAR_TRACES").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| workspace_root().join("shared/traces"));
    let file = folder.join(name);
    if !file.is_file() {
        not_available(&format!(
            "published traces: {} is not there (BURSAR_TRACES names their folder)",
            file.display()
        ));
        return None;
    }
    Some(file)
}

fn import(file: &Path, options: &Options) -> (Trace, Summary) {
    let trace = open(file, options).expect("the published file is a trace");
    let summary = describe(&trace);
    (trace, summary)
}

fn since(secs: u64) -> Option<Timestamp> {
    Some(Timestamp::from_millis(secs * 1000))
}

/// A line of the description: jobs, tenths of days, load and load inside in thousandths on so many GPUs, GPUs for a load of
/// 0.9, teams, users, biggest job.
struct Line {
    jobs: usize,
    days_tenth: u64,
    gpus: u32,
    load: u128,
    inside: u128,
    for_900: u128,
    teams: usize,
    users: usize,
    biggest: u32,
}

fn check(summary: &Summary, line: &Line) {
    let days_tenth = (summary.span().as_millis() * 10 + 43_200_000) / 86_400_000;
    let mut found = vec![
        ("jobs", summary.jobs.to_string(), line.jobs.to_string()),
        ("tenths of days", days_tenth.to_string(), line.days_tenth.to_string()),
        ("teams", summary.teams.to_string(), line.teams.to_string()),
        ("users", summary.users.to_string(), line.users.to_string()),
        ("biggest", summary.biggest.to_string(), line.biggest.to_string()),
    ];
    let load = |milli: Option<u128>| milli.map_or("none".into(), |milli| milli.to_string());
    found.push(("load", load(summary.load_milli(line.gpus)), line.load.to_string()));
    found.push(("inside", load(summary.load_inside_milli(line.gpus)), line.inside.to_string()));
    found.push(("GPUs for 0.9", load(summary.gpus_for_load(900)), line.for_900.to_string()));
    for (what, found, expected) in found {
        assert_eq!(found, expected, "{what}");
    }
}

fn secs(summary: &Summary) -> Vec<u64> {
    summary.durations.iter().map(|span| span.as_millis() / 1000).collect()
}

fn count(trace: &Trace, end: TraceEnd) -> usize {
    trace.jobs.iter().filter(|job| job.end == end).count()
}

fn per_mille(jobs: usize, of: &Summary) -> usize {
    (jobs * 1000 + of.jobs / 2) / of.jobs
}

#[test]
fn helios_venus_has_10796_jobs_with_gpus() {
    let Some(file) = published("raw/helios_venus_15000.csv") else { return };
    let (trace, summary) = import(&file, &Options::default());
    assert_eq!(trace.import.rows, 15_000);
    assert_eq!(trace.import.reasons, [("has no GPU".to_owned(), 4204)]);
    check(
        &summary,
        &Line {
            jobs: 10_796,
            days_tenth: 202,
            gpus: 968,
            load: 765,
            inside: 667,
            for_900: 822,
            teams: 0,
            users: 95,
            biggest: 160,
        },
    );
    assert_eq!(secs(&summary), [277, 18_376, 296_623, 1_964_673]);
    assert_eq!((summary.busiest_minute, summary.peak_gpus), (32, 958));
    assert_eq!(per_mille(count(&trace, TraceEnd::Completed), &summary), 498);
}

#[test]
fn philly_attempts_are_9773_jobs_of_12_virtual_clusters() {
    let Some(file) = published("raw/philly_attempts_15000.csv") else { return };
    let Some(companion) = published("raw/philly_pass_vc.csv.gz") else { return };
    let whole = Options { companion: Some(companion), ..Options::default() };
    let (trace, _) = import(&file, &whole);
    assert_eq!(trace.import.rows, 15_000);
    let (trace, summary) = import(&file, &Options { since: since(1_506_297_600), ..whole });
    check(
        &summary,
        &Line {
            jobs: 9773,
            days_tenth: 90,
            gpus: 2490,
            load: 607,
            inside: 337,
            for_900: 1680,
            teams: 12,
            users: 121,
            biggest: 48,
        },
    );
    assert_eq!(secs(&summary), [382, 39_051, 1_089_243, 5_190_886]);
    assert_eq!((summary.busiest_minute, summary.peak_gpus), (31, 1487));
    assert_eq!(per_mille(summary.jobs_without_team, &summary), 38);
    let ends = [TraceEnd::Completed, TraceEnd::Failed, TraceEnd::Cancelled].map(|end| count(&trace, end));
    assert_eq!(ends.map(|jobs| per_mille(jobs, &summary)), [715, 164, 121]);
}

#[test]
fn phillys_passed_jobs_are_82247_unsorted_rows() {
    let Some(file) = published("raw/philly_pass_vc.csv.gz") else { return };
    let (trace, summary) = import(&file, &Options::default());
    assert_eq!((summary.jobs, trace.import.rows, summary.teams), (82_247, 82_247, 15));
    assert_eq!(secs(&summary)[..3], [1144, 11_266, 254_884]);
    assert_eq!(summary.gpu_ms / 3_600_000, 978_078);
    assert!(trace.import.notes.iter().any(|note| note.contains("out of order")));
    let options = Options { since: since(1_507_507_200), limit: Some(20_000), ..Options::default() };
    let (_, summary) = import(&file, &options);
    check(
        &summary,
        &Line {
            jobs: 20_000,
            days_tenth: 113,
            gpus: 2490,
            load: 213,
            inside: 156,
            for_900: 590,
            teams: 11,
            users: 0,
            biggest: 16,
        },
    );
}

#[test]
fn kalos_has_319_jobs() {
    let Some(file) = published("raw/acme_kalos_319.csv") else { return };
    let (_, summary) = import(&file, &Options::default());
    check(
        &summary,
        &Line {
            jobs: 319,
            days_tenth: 900,
            gpus: 2416,
            load: 88,
            inside: 87,
            for_900: 235,
            teams: 2,
            users: 0,
            biggest: 1024,
        },
    );
    assert_eq!(secs(&summary), [310, 39_059, 222_290, 625_740]);
}

#[test]
fn openb_has_8152_pods_and_6150_in_its_dense_part() {
    let Some(file) = published("raw/openb_pod_list_default.csv") else { return };
    let (trace, _) = import(&file, &Options::default());
    assert_eq!(trace.import.rows, 8152);
    let reasons: Vec<_> = trace.import.reasons.iter().map(|(why, rows)| (why.as_str(), *rows)).collect();
    assert_eq!(reasons, [("has no GPU", 8152 - 7064), ("never started", 861)]);
    assert_eq!(trace.jobs.len(), 7064 - 861);
    let (trace, summary) = import(&file, &Options { since: since(10_000_000), ..Options::default() });
    check(
        &summary,
        &Line {
            jobs: 6150,
            days_tenth: 336,
            gpus: 6212,
            load: 4,
            inside: 4,
            for_900: 25,
            teams: 4,
            users: 0,
            biggest: 8,
        },
    );
    assert_eq!(secs(&summary), [637, 7047, 79_992, 2_612_709]);
    let waits = summary.waits.unwrap().map(|span| span.as_millis() / 1000);
    assert_eq!(waits[..3], [2, 139, 1110]);
    assert_eq!(per_mille(count(&trace, TraceEnd::Running), &summary), 3);
    assert_eq!(per_mille(count(&trace, TraceEnd::Unknown), &summary), 665);
}

#[test]
fn openbs_machines_have_6212_gpus() {
    let Some(file) = published("raw/openb_node_list_gpu_node.csv") else { return };
    let machines = machines(&file).unwrap();
    assert_eq!((machines.len(), machines.iter().map(|machine| machine.gpus).sum::<u32>()), (1213, 6212));
    let types: std::collections::BTreeSet<_> = machines.iter().map(|machine| &machine.gpu_type).collect();
    assert_eq!(types.len(), 7);
}

#[test]
fn eagles_accounting_has_1000_jobs_of_which_4_have_gpus() {
    let Some(file) = published("raw/eagle_sample_1000.sacct.txt") else { return };
    let (trace, summary) = import(&file, &Options::default());
    assert_eq!((trace.import.rows, summary.jobs), (1000, 4));
    let proxy = Options { one_gpu: Some("1 node".parse().unwrap()), ..Options::default() };
    let (trace, summary) = import(&file, &proxy);
    check(
        &summary,
        &Line {
            jobs: 1000,
            days_tenth: 21,
            gpus: 2100,
            load: 223,
            inside: 130,
            for_900: 519,
            teams: 8,
            users: 15,
            biggest: 360,
        },
    );
    assert_eq!(secs(&summary), [14_171, 14_750, 100_392, 172_829]);
    assert_eq!((summary.busiest_minute, count(&trace, TraceEnd::TimedOut)), (453, 15));
    assert_eq!(summary.waits.unwrap()[0].as_millis(), 4000);
    let Some(file) = published("raw/eagle_sample_1000.csv") else { return };
    let (csv, summary) = import(&file, &Options { format: Some(Format::Csv), ..proxy });
    assert_eq!(summary.gpu_ms, describe(&trace).gpu_ms, "the same jobs, as any CSV");
    assert_eq!(csv.jobs.len(), 1000);
}

#[test]
fn nasas_log_has_18239_jobs() {
    let Some(file) = published("raw/NASA-iPSC-1993-3.1-cln.swf") else { return };
    let options = Options { one_gpu: Some("1 processor".parse().unwrap()), ..Options::default() };
    let (trace, summary) = import(&file, &options);
    assert_eq!((trace.import.rows, trace.import.skipped.len()), (18_239, 0));
    check(
        &summary,
        &Line {
            jobs: 18_239,
            days_tenth: 920,
            gpus: 128,
            load: 466,
            inside: 466,
            for_900: 66,
            teams: 2,
            users: 69,
            biggest: 128,
        },
    );
    assert_eq!(secs(&summary), [86, 1480, 10_932, 62_643]);
    assert_eq!(trace.jobs.iter().filter(|job| job.duration.is_zero()).count(), 173);
}

#[test]
fn intrepids_log_has_68936_jobs() {
    let Some(file) = published("raw/ANL-Intrepid-2009-1.swf.gz") else { return };
    let options = Options { one_gpu: Some("256 processors".parse().unwrap()), ..Options::default() };
    let (trace, whole) = import(&file, &options);
    assert_eq!((trace.import.rows, trace.jobs.len()), (68_936, 68_936));
    let over =
        trace.jobs.iter().filter(|job| job.time_limit.is_some_and(|limit| job.duration > limit)).count();
    assert_eq!(over, 12_241);
    let waits = whole.waits.unwrap().map(|span| span.as_millis() / 1000);
    assert_eq!(waits[..2], [406, 36_801]);
    let (_, summary) = import(&file, &Options { limit: Some(20_000), ..options });
    check(
        &summary,
        &Line {
            jobs: 20_000,
            days_tenth: 710,
            gpus: 640,
            load: 492,
            inside: 491,
            for_900: 350,
            teams: 20,
            users: 124,
            biggest: 640,
        },
    );
    assert_eq!(secs(&summary), [3203, 9468, 42_603, 226_295]);
    assert_eq!(summary.peak_gpus, 4320);
    let waits = summary.waits.unwrap().map(|span| span.as_millis() / 1000);
    assert_eq!(waits[..3], [1935, 39_699, 260_646]);
}

#[test]
fn normalised_traces_need_no_names_of_columns() {
    let names = [
        ("helios_venus", 10_796),
        ("philly_users", 9773),
        ("philly_vc", 20_000),
        ("acme_kalos", 319),
        ("openb", 6150),
        ("eagle", 1000),
        ("nasa_ipsc", 18_239),
        ("anl_intrepid", 20_000),
    ];
    for (name, jobs) in names {
        let Some(file) = published(&format!("norm/{name}.csv")) else { return };
        let (trace, summary) = import(&file, &Options::default());
        assert_eq!((summary.jobs, trace.import.reasons.len(), trace.name.as_str()), (jobs, 0, name));
        assert!(
            trace.import.notes.iter().all(|note| !note.contains("nobody reads")),
            "{:?}",
            trace.import.notes
        );
        // The same, by names that a person gives.
        let mut given = Options::default();
        for (field, column) in
            [(Field::Submit, "submit_s"), (Field::Gpus, "gpus"), (Field::Duration, "duration_s")]
        {
            given.column(&format!("{}={column}", field.name())).unwrap();
        }
        assert_eq!(import(&file, &Options { format: Some(Format::Csv), ..given }).0, trace);
    }
}

#[test]
fn helios_by_interval_is_helios_normalised() {
    let (Some(raw), Some(norm)) =
        (published("raw/helios_venus_15000.csv"), published("norm/helios_venus.csv"))
    else {
        return;
    };
    let (raw, _) = import(&raw, &Options::default());
    let (norm, _) = import(&norm, &Options::default());
    let first = raw.jobs[0].submitted_at;
    // The other sorts jobs of one second by their names.
    let of = |trace: &Trace, first: Timestamp| {
        let jobs = trace.jobs.iter();
        let mut jobs: Vec<_> = jobs
            .map(|job| (job.submitted_at.since(first), job.duration, job.gpus, job.nodes, job.end))
            .collect();
        jobs.sort_unstable();
        jobs
    };
    let (raw, norm) = (of(&raw, first), of(&norm, Timestamp::ZERO));
    let first_other = raw.iter().zip(&norm).find(|(raw, norm)| raw != norm);
    assert_eq!((raw.len(), first_other), (norm.len(), None));
}
