//! Pages show only what exists.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Result;
use chaos_tests::lab::Lab;
use xtask::rules::{docs, repository_texts};

pub fn every_command_in_the_pages_is_known(lab: &mut Lab) -> Result<()> {
    let shown = docs::commands(&repository_texts()?);
    let ours: Vec<_> = shown.into_iter().filter(|command| command.program == "bursar").collect();
    assert!(!ours.is_empty(), "the pages show no command");
    let mut asked: BTreeMap<Vec<String>, Option<String>> = BTreeMap::new();
    let findings = docs::unknown(&ours, |path| {
        let ask = || {
            let said = Command::new(&lab.parts.bursar).args(path).arg("--help").output().ok()?;
            said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
        };
        asked.entry(path.to_vec()).or_insert_with(ask).clone()
    });
    assert!(findings.is_empty(), "{findings:#?}");
    Ok(())
}
