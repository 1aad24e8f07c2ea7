//! A toy with a known answer: the wait of a large job on a cluster of which a part is protected.
//!
//! Of `nodes` machines a part is protected, with the time left uniform from 0 to the cap; the rest may be taken at once. A
//! job needs some of them. It waits for the `m`th of `n` protections to end, `m` being what it needs beyond what it may
//! take: the order statistic of a uniform distribution, whose mean is `cap x m / (n + 1)`. The engine set to it has to
//! find the same, through real jobs, a real date, and a real claim.

use scheduler_core::budget::TreeNode;
use scheduler_core::id::{Label, Name};
use scheduler_core::settings::Settings;
use scheduler_core::spec::ContractDefaults;
use scheduler_core::unit::{Bytes, GpuCount, Share, Span, Timestamp};

use crate::engine::{Error, NodeSetup, Setup, SimJob, Work, run};
use crate::policy::Ours;
use crate::record::{JobEnd, Record};

const BEGIN: Timestamp = Timestamp::from_millis(1_767_571_200_000);
/// The large job comes so long after the last of the others: they all run by then.
const LATER: Span = Span::from_secs(2);
/// The others begin in so many groups over the time between two saves: a preemption finds each at another point of it.
const GROUPS: u32 = 30;
const NODE_GPUS: u32 = 8;

/// The toy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Toy {
    /// Machines with 8 GPUs.
    pub nodes: u32,
    /// How many of them are protected.
    pub protected: u32,
    /// Machines that the large job needs.
    pub needed: u32,
    /// The longest protection.
    pub cap: Span,
    /// What the others lose with a preemption besides what they have not saved.
    pub restart: Span,
    /// How often they save.
    pub save_every: Span,
}

/// What came of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// How long the large job waited for its GPUs.
    pub waited: Span,
    /// GPU time that the protected jobs lost to it, for each GPU that it took from them; none if it took none.
    pub lost_each: Option<Span>,
}

impl Toy {
    /// Returns the mean wait by the formula, in milliseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "ten years of milliseconds are exact")]
    pub fn mean_ms(&self) -> f64 {
        let beyond = f64::from(self.needed.saturating_sub(self.nodes - self.protected));
        self.cap.as_millis() as f64 * beyond / f64::from(self.protected + 1)
    }

    /// Runs one trial with chances from 0 to 1, one for each machine that is protected.
    ///
    /// # Errors
    /// When the control plane refuses it.
    pub fn trial(&self, chances: &mut dyn FnMut() -> f64) -> Result<Trial, Error> {
        let setup = self.setup(chances).map_err(Error::Refused)?;
        let record = run(&setup, &mut Ours::default(), &mut |_| ())?;
        Ok(self.read(&record))
    }

    fn read(&self, record: &Record) -> Trial {
        let large = record.jobs.len() - 1;
        let go =
            record.attempts.iter().filter(|attempt| attempt.job == large).find_map(|attempt| attempt.go_at);
        let came = record.jobs[large].submitted_at;
        let taken = record.preemptions.iter().filter(|taken| {
            let victim = record.attempts[taken.victim].job;
            taken.taken_for == Some(large) && !record.jobs[victim].is_free
        });
        let (mut lost, mut gpus) = (0, 0);
        for preemption in taken {
            lost += preemption.lost_gpu_ms;
            gpus += record.attempts[preemption.victim].gpus.len() as u64;
        }
        Trial {
            waited: go.unwrap_or(record.end).since(came),
            lost_each: (gpus > 0).then(|| Span::from_millis(lost / gpus.max(1))),
        }
    }

    fn setup(&self, chances: &mut dyn FnMut() -> f64) -> Result<Setup, String> {
        let name = |text: &str| Name::new(text).map_err(|why| why.to_string());
        let nodes = (0..self.nodes).map(|at| {
            Ok(NodeSetup {
                name: name(&format!("n-{at:03}"))?,
                cluster: name("main")?,
                topology: Vec::new(),
                gpus: NODE_GPUS,
                gpu_type: Label::new("toy").map_err(|why| why.to_string())?,
                cpus: 64,
                memory: Bytes::new(1 << 40),
            })
        });
        let mut jobs = Vec::new();
        for at in 0..self.nodes {
            // A job that begins earlier asks for more, so that all have the same left when the large one comes.
            let part = self.save_every.as_millis() / u64::from(GROUPS);
            let earlier = Span::from_millis(part * u64::from(GROUPS - at % GROUPS));
            let minimum = match at < self.protected {
                true => self.left(chances()).plus(earlier),
                false => Span::ZERO,
            };
            let begin = BEGIN.plus(self.save_every).minus(earlier);
            jobs.push(self.job("small", 1, begin, minimum));
        }
        jobs.sort_by_key(|job| job.submitted_at);
        let comes = BEGIN.plus(self.save_every).plus(LATER);
        jobs.push(self.job("large", self.needed, comes, Span::from_secs(60)));
        Ok(Setup {
            scenario: "toy".into(),
            variant: Vec::new(),
            seed: 0,
            settings: Settings {
                allow_simulated: true,
                cap: self.cap.plus(self.save_every).plus(LATER),
                grace: Span::from_millis(50),
                free_grace: Span::from_millis(50),
                debounce: Span::from_millis(50),
                // The formula knows of no budgets: whose protection has ended leaves for the large job, whatever it used.
                date_margin: Span::from_millis(50),
                recheck: Span::from_hours(10_000),
                beat: Span::MAX,
                silent_after: Span::MAX,
                unreachable_after: Span::MAX,
                ..Settings::default()
            },
            tree: tree()?,
            nodes: nodes.collect::<Result<_, String>>()?,
            outages: Vec::new(),
            jobs,
            patience: None,
            hold_above: None,
            begin: BEGIN,
            end: comes.plus(self.cap).plus(Span::from_hours(1)),
        })
    }

    /// Returns a protection that has the part `chance` of the cap left when the large job comes.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the cap, in whole milliseconds"
    )]
    fn left(&self, chance: f64) -> Span {
        let ms = self.cap.as_millis() as f64 * chance.clamp(0.0, 1.0);
        Span::from_millis(ms as u64).plus(LATER)
    }

    fn job(&self, budget: &str, nodes: u32, at: Timestamp, minimum: Span) -> SimJob {
        let work = Work {
            length: self.cap.plus(self.cap).plus(self.cap),
            end: JobEnd::Completed,
            launch: Span::ZERO,
            restart: self.restart,
            save_every: Some(self.save_every),
            save_takes: Span::ZERO,
            saves_at_notice: false,
            leaves_early: true,
            reports: false,
        };
        SimJob {
            name: budget.into(),
            user: "toy".into(),
            budget: budget.into(),
            nodes,
            gpus_per_node: GpuCount::new(NODE_GPUS),
            min_runtime: minimum,
            time_limit: None,
            is_resumable: true,
            submitted_at: at,
            work,
        }
    }
}

/// One budget for the jobs that are there, and one that has used nothing.
fn tree() -> Result<TreeNode, String> {
    let node = |text: &str, percent: u32, children: Vec<TreeNode>| {
        Ok::<_, String>(TreeNode {
            name: Name::new(text).map_err(|why| why.to_string())?,
            share: Share::from_ppm(percent * 10_000).ok_or("no share")?,
            pools: Default::default(),
            owner: None,
            members: Default::default(),
            defaults: ContractDefaults::default(),
            children,
        })
    };
    node("toy", 100, vec![node("small", 50, Vec::new())?, node("large", 50, Vec::new())?])
}
