//! The bytes of each command as format 1 writes them. A difference here breaks every log on disk: append fields, never
//! change or reuse one.

use crate::sample;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn entries_have_the_bytes_of_format_1() {
    let lines: Vec<String> = sample::commands()
        .into_iter()
        .map(|command| hex(&proto::encode_entry(&sample::entry(command))))
        .collect();
    let now = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/entries-1.hex");
    if std::env::var_os("BURSAR_UPDATE_FROZEN").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    assert_eq!(
        now,
        std::fs::read_to_string(path).unwrap(),
        "BURSAR_UPDATE_FROZEN=1 writes them, before a release only"
    );
}
