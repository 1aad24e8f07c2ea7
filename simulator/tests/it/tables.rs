//! The rows, the CSV and the JSON of measured runs.

use simulator::measure::{Known, Measures, SCHEMA, measure};
use simulator::report::{FIGURES, csv, details, figures, json, table};

use crate::made::{WEEK, week};

fn runs() -> Vec<Measures> {
    let first = measure(&week(1, WEEK));
    let mut second = first.clone();
    second.run.variant = vec!["protection.cap=2h".to_owned()];
    vec![first, second]
}

#[test]
fn runs_of_a_sweep_are_named_by_what_they_have_different() {
    let table = table(&runs());
    assert_eq!(table.headers.len(), table.rows[0].len());
    let names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["protection.cap=8h", "protection.cap=2h"]);
    assert!(table.title.starts_with("made-week: 7 days, "), "{}", table.title);
    assert!(table.title.ends_with(" jobs, 128 GPUs, seed 1, 2 runs"), "{}", table.title);
    assert!(table.notes.iter().any(|note| note.contains("Direction is reliable")));
}

#[test]
fn runs_that_only_their_seed_tells_apart_are_one_row() {
    let mut runs = runs();
    runs[1].run = runs[0].run.clone();
    runs[1].run.seed = 2;
    let ratios = [(0.9, 0.8), (1.0, 0.5)];
    for (run, (mean, worst)) in runs.iter_mut().zip(ratios) {
        (run.delivery.period.mean_ratio, run.delivery.period.worst_ratio) = (Some(mean), Some(worst));
    }
    runs[1].heads.longest = Some(Known { ms: 7_200_000_000, is_at_least: true });
    let table = table(&runs);
    assert_eq!(table.rows.len(), 1);
    assert_eq!(table.rows[0][1..3], ["95.0%", "50.0%"], "the mean, and the worst seed");
    assert!(table.rows[0].contains(&">83d 08h".to_owned()), "{:?}", table.rows);
    assert!(table.notes[0].starts_with("Mean of 2 seeds"), "{:?}", table.notes);
    assert_eq!(figures(&runs).headers[1..], ["protection.cap=8h seed 1", "protection.cap=8h seed 2"]);
}

#[test]
fn every_table_is_as_wide_as_its_header() {
    let runs = runs();
    let mut tables = details(&runs[0]);
    tables.push(figures(&runs));
    tables.push(table(&runs));
    for table in tables {
        assert!(!table.rows.is_empty(), "{}", table.title);
        assert!(table.rows.iter().all(|row| row.len() == table.headers.len()), "{}", table.title);
    }
}

#[test]
fn json_names_its_schema_and_csv_has_every_figure() {
    let runs = runs();
    let json: serde_json::Value = serde_json::from_str(&json(&runs).unwrap()).unwrap();
    assert_eq!(json[0]["schema"], SCHEMA);
    assert_eq!(json[1]["classes"]["total_gpu_ms"], 128_u64 * 7 * 86_400_000);
    let csv = csv(&runs);
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert!(FIGURES.iter().all(|figure| header.contains(&figure.key)));
    assert_eq!(csv.lines().count(), 3);
}

#[test]
fn the_page_of_figures_explains_every_figure() {
    let page = include_str!("../../../docs/users/simulate-report.md");
    for figure in FIGURES {
        assert!(page.contains(&format!("`{}`", figure.key)), "the page does not explain `{}`", figure.key);
    }
}
