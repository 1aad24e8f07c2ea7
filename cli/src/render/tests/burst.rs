//! The line where a burst limit puts a budget behind the others.

use proto::v1::{QueueRow, QueueView};

use super::{as_of, check, look, row, usage};
use crate::render::queue;

#[test]
fn who_is_above_its_burst_limit_is_marked_and_the_line_says_why() {
    let said = "back has 3 GPUs, more than its burst limit of 2.99, 299 % of its share";
    let back = row(2, 8, "eval", "back", 4, vec![usage("back", 10_000, 300)], "waiting.burst");
    let mut view = QueueView {
        schema: "queue/v1".into(),
        as_of: as_of(),
        rows: vec![
            row(1, 9, "train", "other", 4, vec![usage("other", 970_000, 30)], "waiting.capacity"),
            QueueRow { over_burst: said.into(), ..back.clone() },
            QueueRow { over_burst: said.into(), place: 3, job: 7, ..back },
        ],
        ..QueueView::default()
    };
    check(
        &queue::queue(&view, &look()),
        "as of 14:02:11
order = use of allocation, compared level by level; lower goes first, above its burst limit (*) last

#  JOB  NAME   BUDGET  GPUS  MIN  USE BY LEVEL  HEADROOM  WAIT  NOW
1    9  train  other      4   2h  0.97                30  0:04  nodes are away
2    8  eval   back       4   2h  * 0.01             300  0:04  above its burst limit
3    7  eval   back       4   2h  * 0.01             300  0:04  above its burst limit

note: * back has 3 GPUs, more than its burst limit of 2.99, 299 % of its share
",
    );
    view.rows.truncate(1);
    let text = queue::queue(&view, &look());
    assert!(!text.contains("burst") && !text.contains("note"), "{text}");
}

#[test]
fn a_long_note_fits_the_terminal() {
    let path = ["language", "posttraining-and-evaluation", "reasoning-with-long-contexts"].join("/");
    for path in [path.clone(), format!("{path}/{}", "deep/".repeat(30))] {
        let said = format!("{path} has 1,000 GPUs, more than its burst limit of 299.99, 299 % of its share");
        let back = row(1, 8, "eval", "back", 4, vec![usage("back", 10_000, 300)], "waiting.burst");
        let view = QueueView {
            schema: "queue/v1".into(),
            as_of: as_of(),
            rows: vec![QueueRow { over_burst: said, ..back }],
            ..QueueView::default()
        };
        let text = queue::queue(&view, &look());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let note: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("note: ")).collect();
        assert!(note.len() > 1 && note[1..].iter().all(|line| line.starts_with("      ")), "{text}");
        assert!(text.ends_with("299 % of its share\n"), "{text}");
    }
}
