//! What a node finds out when it starts a job.

use anyhow::Result;
use chaos_tests::lab::{Lab, until};

use crate::seen;

pub fn launch_that_cannot_work_is_told_with_its_cause(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    let plain = lab.write("no-program", "this is text\n")?;
    let cases: &[(&[&str], u32, &str)] = &[
        (&["--", "/no/such/program"], 127, "/no/such/program"),
        (&["--", "no-such-program-anywhere"], 127, "no-such-program-anywhere"),
        (&["--", &plain], 126, "no-program"),
        (&["--working-dir", "/no/such/directory", "--", "true"], 127, "/no/such/directory"),
        (&["--output-file", "/no/such/directory/log", "--", "true"], 127, "/no/such/directory/log"),
        (&["--secret", "NO_SUCH_SECRET", "--", "true"], 127, "NO_SUCH_SECRET"),
    ];
    for (rest, code, words) in cases {
        let first = ["submit", "-o", "name", "--budget", "a", "--unallocated"];
        let args: Vec<&str> = first.into_iter().chain(rest.iter().copied()).collect();
        let job = lab.bursar_as("ana", &args).number();
        let view = seen::ended(lab, &ana, job);
        let exit = view.exit.clone().unwrap_or_default();
        assert_eq!((view.end.as_deref(), exit.value), (Some("failed"), *code), "{view:#?}");
        let detail = seen::last(&view).detail.unwrap_or_default();
        assert!(detail.contains(words), "{view:#?}");
        let shown = lab.bursar_as("ana", &["job", "show", &job.to_string()]).ok();
        assert!(shown.out.contains(words), "{shown:#?}");
        assert_eq!(view.attempts.len(), 1, "the job's own fault is not tried again: {view:#?}");
    }

    // An account that the node does not have is the node's fault: tried elsewhere, and the cause is told.
    let file = lab.token_file("stranger").display().to_string();
    let add =
        ["principal", "add", "stranger", "--account", "no-such-account", "--operator", "--token-file", &file];
    let added = lab.bursar(&add);
    assert!(added.code == 0 || added.err.contains("B1403"), "{added:#?}");
    let tree = "name: lab\nowner: ops\nmembers: [stranger]\nchildren:\n  - { name: a, share: 60, owner: ana, members: [ana] }\n  \
                - name: b\n    share: 40\n    owner: bob\n    children:\n      \
                - { name: x, share: 50, members: [bob] }\n      - { name: y, share: 50, members: [bob] }\n";
    let tree = lab.write("stranger.yaml", tree)?;
    lab.bursar(&["budget", "apply", "-f", &tree, "--reason", "a stranger comes", "--yes"]).ok();
    let submit = ["submit", "-o", "name", "--budget", "a", "--unallocated", "--", "true"];
    let job = lab.bursar_as("stranger", &submit).number();
    let view = until("two launches have failed", || {
        let view = lab.block_on(ana.show(job)).ok()?;
        let failed =
            view.attempts.iter().filter(|attempt| attempt.end.as_deref() == Some("launch-failed-node"));
        (failed.count() >= 2).then_some(view)
    });
    let detail = seen::last(&view).detail.or_else(|| view.attempts[0].detail.clone()).unwrap_or_default();
    assert!(detail.contains("no account no-such-account"), "{view:#?}");
    assert_ne!(view.state, "ended", "{view:#?}");
    lab.bursar_as("stranger", &["job", "cancel", &job.to_string()]).ok();
    seen::ended(lab, &ana, job);
    lab.apply_tree("the stranger goes")?;
    Ok(())
}
