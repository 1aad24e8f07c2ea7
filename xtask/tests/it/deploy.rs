//! The units say what keeps a job alive when its agent is stopped.

use xtask::rules::repository_texts;

#[test]
fn stopping_the_agent_s_unit_leaves_jobs_alone() {
    let texts = repository_texts().unwrap();
    let unit = texts.iter().find(|text| text.path == "deploy/bursar-agent.service").unwrap();
    for must in ["KillMode=process", "OOMPolicy=continue", "Delegate=yes", "Restart=always"] {
        assert!(unit.text.lines().any(|line| line == must), "{must}");
    }
}
