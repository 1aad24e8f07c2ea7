//! What happened is kept alike on all replicas, whatever each of them went through.

use std::fs;
use std::path::PathBuf;

use proto::history::v1::Record;
use proto::v1;
use scheduler_core::id::{JobId, LogIndex};
use server::history::{self, Direction, Query, Wants};
use server::{Config, Shared};
use xtask::ClusterLock;

use crate::support::{Lab, alone, hash, until};

const ALL: Wants = Wants { audit: true, events: true, jobs: true, bills: true };

/// Three replicas with small segments, whose ended jobs leave state at once.
async fn lab(lock: ClusterLock, change: impl Fn(&mut Config)) -> Lab {
    let small = |config: &mut Config| {
        (config.snapshot_every, config.history_window) = (16, 16);
        change(config);
    };
    Lab::founded_as(lock, &[("keep_ended", 50)], small).await
}

/// Submits jobs and cancels them; they leave state with the entries that follow. Returns their numbers.
async fn churn(lab: &Lab, at: usize, jobs: usize) -> Vec<u32> {
    let ana = lab.client(at, "ana-token").await;
    let mut numbers = Vec::new();
    for _ in 0..jobs {
        let job = ana.submit("science", 1).await.unwrap().job;
        cancel(lab, at, "ana", job).await.unwrap();
        numbers.push(job);
    }
    numbers
}

async fn cancel(lab: &Lab, at: usize, who: &str, job: u32) -> Result<(), tonic::Status> {
    let client = lab.client(at, &format!("{who}-token")).await;
    let request = v1::CancelRequest {
        mark: Some(client.mark().await),
        job,
        now: false,
        reason: format!("{who} says so"),
    };
    client.inner.clone().cancel(client.ask(request)).await.map(|_| ())
}

fn shared(lab: &Lab, at: usize) -> &Shared {
    lab.replicas[at].as_ref().unwrap().shared()
}

/// Reads all of history at a replica.
async fn read_all(lab: &Lab, at: usize, query: Query) -> Vec<Record> {
    let shared = shared(lab, at);
    let seen = shared.views.now().index;
    let (mut query, mut all) = (query, Vec::new());
    loop {
        // Others may take longer to answer than a read waits for them.
        let page = until("somebody has it", || async {
            Some(history::read(shared, seen, query).await.unwrap()).filter(|page| page.hole.is_none())
        })
        .await;
        all.extend(page.records);
        match page.next {
            Some(next) => query = query.on_from(next),
            None => return all,
        }
    }
}

/// Says up to which entry all replicas have the same records, and what each has of its history.
fn first_difference(lab: &Lab, index: u64) -> String {
    let digest =
        |at: usize, to: u64| shared(lab, at).history.digest(LogIndex::new(0), LogIndex::new(to)).ok();
    let differs = |to: &u64| (1..3).any(|at| digest(at, *to) != digest(0, *to));
    let first = (0..=index).find(differs);
    let coverage: Vec<_> = (0..3).map(|at| shared(lab, at).history.coverage()).collect();
    format!("the first that differs is of entry {first:?}; {coverage:#?}")
}

/// Waits until every replica has all of history, and compares them.
async fn assert_equal(lab: &Lab) {
    let (index, digests) = lab.settled().await;
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    let mut seen = Vec::new();
    for at in 0..3 {
        let history = shared(lab, at).history.clone();
        assert!(history.settle(LogIndex::new(index), crate::support::PATIENCE).await);
        until(&format!("all of history at replica {}", at + 1), || async {
            let coverage = history.coverage();
            (coverage.holes.is_empty() && coverage.trouble.is_empty()).then_some(())
        })
        .await;
        let digest = history.digest(LogIndex::new(0), LogIndex::new(index)).unwrap();
        seen.push(digest.unwrap_or_else(|| panic!("{:?}", history.coverage())));
    }
    let is_equal = seen.iter().all(|digest| *digest == seen[0]);
    assert!(is_equal, "records are equal, byte by byte: {}", first_difference(lab, index));
    let first = read_all(lab, 0, Query::all(ALL)).await;
    for at in 1..3 {
        assert_eq!(read_all(lab, at, Query::all(ALL)).await, first);
    }
}

#[test]
fn history_is_equal_on_replicas_that_came_from_a_snapshot_were_restarted_or_killed() {
    alone(|lock| async {
        let mut lab = lab(lock, |_| {}).await;
        churn(&lab, 0, 5).await;
        let leader = lab.leader().await;
        let (behind, killed) = ((leader + 1) % 3, (leader + 2) % 3);
        lab.replicas[behind].take().unwrap().drop_dead().await;
        let before = lab.settled().await.0;
        churn(&lab, leader, 40).await;
        until("a log that the replica needs is gone", || async {
            let purged = shared(&lab, leader).standing().purged;
            purged.filter(|purged| *purged > before)
        })
        .await;
        lab.restart(behind).await;
        let wanted = read_all(&lab, leader, Query::all(ALL)).await;
        until("the replica has caught up", || async {
            (shared(&lab, behind).views.now().index >= shared(&lab, leader).views.now().index).then_some(())
        })
        .await;
        assert!(wanted.len() > 80);
        let got = read_all(&lab, behind, Query::all(ALL)).await;
        assert_eq!(got[..wanted.len()], wanted, "passed on to a peer until it is here");

        // Killed in the middle of writing, and all of them restarted.
        let dying = lab.replicas[killed].take().unwrap();
        let ((), jobs) = tokio::join!(dying.drop_dead(), churn(&lab, leader, 10));
        assert_eq!(jobs.len(), 10);
        lab.restart(killed).await;
        assert_equal(&lab).await;
        for at in 0..3 {
            lab.replicas[at].take().unwrap().stop().await;
        }
        for at in 0..3 {
            lab.restart(at).await;
        }
        until("a write", || async { lab.client(0, "ana-token").await.submit("science", 1).await.ok() }).await;
        assert_equal(&lab).await;
    });
}

#[test]
fn who_asked_what_is_kept_with_refusals_and_without_secrets_and_jobs_are_found_after_they_left() {
    alone(|lock| async {
        let lab = lab(lock, |_| {}).await;
        let job = lab.client(0, "ana-token").await.submit("science", 2).await.unwrap().job;
        cancel(&lab, 1, "ben", job).await.unwrap_err();
        cancel(&lab, 2, "ana", job).await.unwrap();
        churn(&lab, 1, 3).await;
        for at in 0..3 {
            until("the job left state", || async {
                let is_gone = !shared(&lab, at).views.now().state.jobs.contains(&JobId::new(job));
                if !is_gone {
                    // Time in state goes on with entries.
                    churn(&lab, at, 1).await;
                }
                is_gone.then_some(())
            })
            .await;
            let of_job =
                Query { job: Some(JobId::new(job)), ..Query::all(Wants { audit: true, ..Wants::default() }) };
            let lines: Vec<v1::AuditView> =
                read_all(&lab, at, of_job).await.into_iter().flat_map(|record| record.audit).collect();
            let said: Vec<_> = lines.iter().map(|line| (line.actor.as_str(), line.action.as_str())).collect();
            assert_eq!(said, [("ana", "job.submit"), ("ben", "job.cancel"), ("ana", "job.cancel")]);
            let refused = lines[1].refused.as_ref().expect("it was refused");
            assert_eq!((refused.code, lines[1].reason.as_str()), (1401, "ben says so"));
            assert!(lines[0].refused.is_none() && lines[2].refused.is_none());
            assert!(lines.iter().all(|line| line.budget.as_deref() == Some("science")));

            let backward = Query {
                direction: Direction::Backward,
                ..Query::all(Wants { audit: true, ..Wants::default() })
            };
            let all = read_all(&lab, at, backward).await;
            let text = format!("{all:?}");
            for secret in ["never shown", "secret-plan", "ana-token", &format!("{:?}", hash("ana-token"))] {
                assert!(!text.contains(secret), "{secret}");
            }
            let tree = all
                .iter()
                .flat_map(|record| &record.audit)
                .find(|line| line.action == "budget.apply")
                .unwrap();
            assert_eq!((tree.changes.len(), tree.reason.as_str()), (2, "the first tree"), "{tree:?}");

            let shared = shared(&lab, at);
            let seen = shared.views.now().index;
            let gone = history::job(shared, seen, JobId::new(job)).await.unwrap().expect("history has it");
            assert_eq!(gone.job.user.to_string(), "ana");
            assert!(gone.launch.as_ref().is_some_and(|(_, launch)| !launch.bytes.is_empty()));
            let mut state = shared.views.now().state.clone();
            gone.put_into(&mut state);
            assert!(state.jobs.contains(&JobId::new(job)) && state.launches.contains(&gone.job.launch));
            assert_eq!(history::job(shared, seen, JobId::new(4_000)).await.unwrap(), None);
        }
    });
}

fn segments(lab: &Lab, at: usize) -> Vec<PathBuf> {
    let found =
        fs::read_dir(lab.configs[at].data.join("history")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = found.filter(|path| path.extension().is_some_and(|is| is == "seg")).collect();
    found.sort();
    found
}

/// Returns where in a segment's file something of a frame lies that is not the last of its entry.
fn begun_entry(content: &[u8]) -> Option<usize> {
    const SEGMENT_HEADER: usize = 40;
    const FRAME_HEADER: usize = 28;
    const FOOTER: u8 = 4;
    let mut at = SEGMENT_HEADER;
    while content.get(at + 4).is_some_and(|kind| *kind != FOOTER) {
        let length = u32::from_le_bytes(content[at..at + 4].try_into().unwrap());
        let length = usize::try_from(length).unwrap();
        if content[at + 5] & 1 == 0 {
            return Some(at + FRAME_HEADER + length / 2);
        }
        at += FRAME_HEADER + length;
    }
    None
}

#[test]
fn damaged_and_missing_segments_are_said_and_fetched_again() {
    alone(|lock| async {
        let mut lab = lab(lock, |_| {}).await;
        churn(&lab, 0, 30).await;
        assert_equal(&lab).await;
        let leader = lab.leader().await;
        let hurt = (leader + 1) % 3;
        lab.replicas[hurt].take().unwrap().stop().await;
        let found = segments(&lab, hurt);
        assert!(found.len() > 3);
        let content: Vec<Vec<u8>> = found.iter().map(|path| fs::read(path).unwrap()).collect();
        fs::remove_file(&found[0]).unwrap();
        // In an entry of several frames: its others are intact, and are no entry by themselves.
        let (of, at) = (1..found.len())
            .find_map(|of| Some((of, begun_entry(&content[of])?)))
            .expect("a job left state with what somebody said");
        let mut flipped = content[of].clone();
        flipped[at] ^= 4;
        fs::write(&found[of], flipped).unwrap();
        lab.restart(hurt).await;
        // The flip is found by the first read, whatever is known of it before.
        read_all(&lab, hurt, Query::all(ALL)).await;
        assert_equal(&lab).await;
        let aside = fs::read_dir(lab.configs[hurt].data.join("history/aside")).unwrap().count();
        assert_eq!(aside, 1, "what was damaged is kept for people");
        assert_eq!(fs::read(&found[0]).unwrap(), content[0], "a whole window is the same file again");
    });
}

#[test]
fn history_is_bounded_and_what_goes_on_purpose_is_not_fetched_back() {
    alone(|lock| async {
        let mut lab = lab(lock, |config| config.history_keep_bytes = 64 << 10).await;
        churn(&lab, 0, 120).await;
        assert_equal_floor(&lab).await;
        let behind = (lab.leader().await + 1) % 3;
        lab.replicas[behind].take().unwrap().drop_dead().await;
        fs::remove_dir_all(lab.configs[behind].data.join("history")).unwrap();
        lab.restart(behind).await;
        assert_equal_floor(&lab).await;
    });
}

/// Waits until every replica is within bounds, without holes above its floor.
async fn assert_equal_floor(lab: &Lab) {
    for at in 0..3 {
        let history = shared(lab, at).history.clone();
        until(&format!("bounded history at replica {}", at + 1), || async {
            let coverage = history.coverage();
            let is_so = coverage.floor > 0 && coverage.holes.is_empty() && coverage.bytes <= 64 << 10;
            if !is_so {
                eprintln!("not yet: {coverage:?}");
            }
            is_so.then_some(())
        })
        .await;
    }
}
