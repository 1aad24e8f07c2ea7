//! The year.

use anyhow::{Context as _, Result, ensure};
use scheduler_core::command::{Command, IssueJoinToken, Outcome};
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::unit::Span;

use super::agents::GPUS;
use super::machine::{Machine, Peaks};
use super::people::tree;
use crate::world::{REPLICA, facts, found, join, name, person, principal, token};

/// Ten million jobs in a year.
const BETWEEN_JOBS: Span = Span::from_millis(3_153);
/// How often agents report and the leader plans.
const TICK: Span = Span::from_secs(15);

/// What is done.
#[derive(Debug, Clone)]
pub struct Churn {
    /// Chance.
    pub seed: u64,
    /// How many submissions.
    pub jobs: u64,
    /// How many nodes, each with eight GPUs.
    pub nodes: u32,
    /// How often everything is checked and a snapshot is read back, in entries.
    pub check_every: u64,
    /// After every so many of these the entries until the next are applied again.
    pub again_every: u64,
    /// The bounds.
    pub settings: Settings,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Entries of the log.
    pub entries: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Checks.
    pub checks: u64,
    /// How long it was.
    pub span: Span,
    /// The most of everything.
    pub peaks: Peaks,
    /// The digest at the end.
    pub digest: [u8; 32],
}

/// Returns bounds that a few thousand jobs reach, and a window that they outlive.
#[must_use]
pub fn settings_of_a_short_year() -> Settings {
    Settings {
        window: Span::from_mins(40),
        cap: Span::from_mins(5),
        keep_ended: Span::from_mins(4),
        keep_ended_max: 25,
        live_jobs_max: 250,
        keep_results: Span::from_mins(50),
        keep_results_max: 300,
        requests_max: 100,
        request_memory: Span::from_mins(4),
        request_skew: Span::from_mins(2),
        decisions_max: 60,
        bills_max: 20,
        curve_points_max: 2_000,
        specs_mib_max: 1,
        allow_simulated: true,
        ..Settings::default()
    }
}

/// Runs it; `progress` is told jobs submitted, entries, and the state's records now and then.
///
/// # Errors
/// With the first law that does not hold.
pub fn churn(of: &Churn, mut progress: impl FnMut(u64, u64, &Peaks)) -> Result<Report> {
    let mut machine = Machine::new(of.seed);
    found_cluster(&mut machine, of)?;
    let begun = machine.now;
    let (mut submitted, mut tick, mut checks, mut season) = (0, 0, 0, 0);
    // The cluster is a little too small for what is wanted.
    let usual = Span::from_millis(BETWEEN_JOBS.as_millis() * u64::from(of.nodes * GPUS) * 5 / 10);
    let mut next_job = begun;
    while submitted < of.jobs {
        tick += 1;
        machine.now = begun.plus(Span::from_millis(TICK.as_millis() * tick)).max(machine.now);
        while next_job <= machine.now && submitted < of.jobs {
            next_job = next_job.plus(BETWEEN_JOBS);
            submitted += 1;
            machine.submit(season);
        }
        machine.words(tick, &mut season);
        machine.trouble();
        machine.agents(usual);
        machine.plan();
        if machine.index >= (checks + 1) * of.check_every {
            checks += 1;
            machine
                .check(checks.is_multiple_of(of.again_every))
                .with_context(|| format!("seed {}", of.seed))?;
            progress(submitted, machine.index, &machine.peaks);
        }
    }
    machine.check(false).with_context(|| format!("seed {}", of.seed))?;
    Ok(Report {
        entries: machine.index,
        refused: machine.refused,
        checks: checks + 1,
        span: machine.now.since(begun),
        digest: machine.state.digest(),
        peaks: machine.peaks,
    })
}

fn found_cluster(machine: &mut Machine, of: &Churn) -> Result<()> {
    let mut must = |actor, command: Command| {
        let shown = format!("{command:?}");
        machine.apply(actor, command).with_context(|| shown)
    };
    must(REPLICA, Command::Found(found(of.settings.clone())))?;
    for who in ["bob", "eve", "mallory"] {
        must(person("ada"), Command::AddPrincipal(principal(who)))?;
    }
    for n in 0..of.nodes {
        let text = format!("n{n}");
        let permission = IssueJoinToken {
            name: name(&text),
            pool: name("main"),
            token: token(&text),
            expires_at: crate::world::BEGIN.plus(Span::from_hours(1)),
            topology: Vec::new(),
        };
        must(person("ada"), Command::IssueJoinToken(permission))?;
        let Outcome::Joined { node } = must(REPLICA, Command::Join(join(&text)))? else {
            anyhow::bail!("a join is answered with the node's number");
        };
        let facts = facts(&text, "boot-1", GPUS);
        must(Actor::Agent(node), Command::NodeFacts { node, facts })?;
    }
    let base = machine.state.meta.tree;
    let root = tree(0, [30, 30, 20, 10]);
    let reason = String::from("the first tree");
    let budgets = scheduler_core::command::ApplyBudgets { root, base, reason, at: None };
    let answer = machine.apply(person("ada"), Command::ApplyBudgets(budgets));
    ensure!(answer.is_ok(), "the first tree is refused: {answer:?}");
    Ok(())
}
