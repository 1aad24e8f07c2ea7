//! Rows of a bench are read as they are written, and shown aligned.

use xtask::commands::{Row, bench, table};

#[test]
fn rows_are_shown_with_target_and_verdict() {
    let rows: Vec<Row> = serde_json::from_str(
        r#"[{"figure": "next write after a kill, p50", "value": 412, "unit": "ms", "target": 600, "holds": true},
            {"figure": "failed calls", "value": 1, "unit": "", "target": "none", "holds": false},
            {"figure": "rounds", "value": 2.5, "unit": "count"}]"#,
    )
    .unwrap();
    let expected = "\
FIGURE                        VALUE  UNIT   TARGET  HOLDS
next write after a kill, p50    412  ms        600  yes
failed calls                      1           none  NO
rounds                         2.50  count       -  -
";
    assert_eq!(table(&rows), expected);
}

#[test]
fn an_unknown_bench_is_refused_with_those_there_are() {
    let refusal = bench("speed", false).unwrap_err().to_string();
    assert!(refusal.contains("failover") && refusal.contains("submit"), "{refusal}");
}
