//! From a scenario to a setup: every chance is drawn here.

use std::path::Path;

use scheduler_core::budget::TreeNode;
use scheduler_core::id::{Label, Name};
use scheduler_core::settings::{self, Settings};
use scheduler_core::spec::ContractDefaults;
use scheduler_core::unit::{Bytes, Share, Span, Timestamp, written};

use super::draw::{Draw, Purpose};
use super::made;
use super::teams::{Dealer, Leaf, find, leaves};
use super::terms::{Own, Terms, Texts, Whose};
use super::{Budget, Error, Failures, Jobs, Load, Made, Nodes, Scenario, TraceFile};
use crate::engine::{NodeSetup, Outage, Setup, SimJob};
use crate::import;
use crate::trace::{Import, Trace, TraceJob};

/// When every run begins: a Monday, so that days and weeks read well.
const BEGIN: Timestamp = Timestamp::from_millis(1_767_571_200_000);
/// How long made-up jobs come if nothing is said.
const USUAL_LENGTH: Span = Span::from_hours(7 * 24);
/// One part of a whole in percent, in millionths.
const PPM_OF_PERCENT: f64 = 10_000.0;

/// A setup, and what a reader of its figures should know.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What is run.
    pub setup: Setup,
    /// What the import took and left.
    pub import: Import,
    /// Jobs that the machines cannot hold, left out.
    pub too_big: usize,
    /// Work submitted over what the machines could do until the last submission.
    pub offered: f64,
}

/// Draws a scenario with a seed; `folder` is where its trace is looked for, `variant` are settings that differ from it.
///
/// # Errors
/// When a value cannot be, or the trace cannot be read.
pub fn prepare(
    scenario: &Scenario,
    folder: &Path,
    seed: u64,
    variant: &[(String, String)],
) -> Result<Prepared, Error> {
    let settings = settings_of(scenario, variant)?;
    let nodes = machines(&scenario.nodes)?;
    let gpus: u64 = nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let leaves = leaves(&scenario.budgets);
    let length = scenario.length.map(|length| length.0);
    let (submissions, import) = submissions(scenario, folder, seed, &leaves)?;
    let widest = nodes.iter().map(|node| node.gpus).max().unwrap_or(0);
    let terms = Terms {
        rules: &scenario.rules,
        models: &scenario.models,
        cap: settings.cap,
        seed,
        node_gpus: widest,
    };
    let mut dealer = Dealer::new(&leaves, &scenario.teams, seed)?;
    let mut texts = Texts::default();
    let (mut jobs, mut too_big) = (Vec::with_capacity(submissions.size_hint().0), 0);
    for (at, (stream, job)) in submissions.enumerate() {
        let whole = u64::from(job.gpus.div_ceil(widest.max(1))) * u64::from(widest);
        if u64::from(job.gpus) > gpus || (job.gpus > widest && whole > gpus) {
            too_big += 1;
            continue;
        }
        let own = stream
            .map_or(Own::default(), |made| Own { resumable: made.resumable, checkpoints: made.checkpoints });
        let named = stream.and_then(|made| made.budget.as_deref());
        let leaf = named.unwrap_or_else(|| &dealer.leaf(&job).path);
        let user = job.user.as_deref().unwrap_or("unknown");
        let whose = Whose { user: texts.shared(user), budget: texts.shared(leaf) };
        jobs.push(terms.job(at as u64, &job, whose, own));
    }
    let (offered, last) = pace(&mut jobs, gpus, scenario.load)?;
    let end = BEGIN.plus(length.unwrap_or_else(|| last.max(Span::from_hours(1))));
    let outages = scenario.models.failures.map(|failures| outages(failures, &nodes, seed, end));
    let hold_above = if let Load::Demand(most) = scenario.load { Some(most) } else { None };
    let setup = Setup {
        scenario: scenario.name.clone(),
        variant: variant.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        seed,
        settings,
        tree: tree(&scenario.budgets)?,
        nodes,
        outages: outages.unwrap_or_default(),
        jobs,
        patience: scenario.rules.patience.map(|patience| patience.0),
        hold_above,
        begin: BEGIN,
        end,
    };
    Ok(Prepared { setup, import, too_big, offered })
}

/// Jobs as they are submitted, in order, each with the stream that made it up.
type Submissions<'a> = Box<dyn Iterator<Item = (Option<&'a Made>, TraceJob)> + 'a>;

fn submissions<'a>(
    scenario: &'a Scenario,
    folder: &Path,
    seed: u64,
    leaves: &[Leaf],
) -> Result<(Submissions<'a>, Import), Error> {
    match &scenario.jobs {
        Jobs::Trace(file) => {
            let trace = open(file, folder)?;
            Ok((Box::new(trace.jobs.into_iter().map(|job| (None, job))), trace.import))
        }
        Jobs::Made(streams) => {
            for (at, stream) in streams.iter().enumerate() {
                if let Some(path) = &stream.budget {
                    find(leaves, path, &format!("jobs.made[{at}].budget"))?;
                }
            }
            let length = scenario.length.map_or(USUAL_LENGTH, |length| length.0);
            let jobs = made::draw(streams, seed, length)?;
            Ok((Box::new(jobs.map(|(stream, job)| (streams.get(stream), job))), Import::default()))
        }
    }
}

fn open(file: &TraceFile, folder: &Path) -> Result<Trace, Error> {
    let mut options = import::Options::default();
    if let Some(format) = &file.format {
        options.format = Some(format.parse()?);
    }
    if let Some(one) = &file.one_gpu {
        options.one_gpu = Some(one.parse()?);
    }
    options.limit = file.limit;
    options.companion = file.companion.as_ref().map(|companion| folder.join(companion));
    let mut trace = import::open(&folder.join(&file.file), &options)?;
    if let (Some(after), Some(first)) = (file.after, trace.jobs.first().map(|job| job.submitted_at)) {
        let before = trace.jobs.len();
        trace.jobs.retain(|job| job.submitted_at >= first.plus(after.0));
        let left = before - trace.jobs.len();
        trace.import.notes.push(format!("{left} jobs came before the part of the trace that is taken"));
    }
    Ok(trace)
}

/// Moves the jobs to the beginning of the run and apart, or together, as the load asks; returns the offered load and when
/// the last one comes.
#[expect(clippy::cast_precision_loss, reason = "a load is told to some digits")]
fn pace(jobs: &mut [SimJob], gpus: u64, load: Load) -> Result<(f64, Span), Error> {
    let first = jobs.iter().map(|job| job.submitted_at).min().unwrap_or(Timestamp::ZERO);
    let last = jobs.iter().map(|job| job.submitted_at).max().unwrap_or(Timestamp::ZERO);
    let span = last.since(first);
    let work: f64 = jobs.iter().map(|job| job.gpus() as f64 * job.work.length.as_millis() as f64).sum();
    let could = gpus as f64 * span.as_millis() as f64;
    let as_is = if could > 0.0 { work / could } else { 0.0 };
    let factor = match load {
        Load::AsIs => 1.0,
        // Jobs come as there is room for them: their times only give the order.
        Load::Demand(most) => {
            check(most, "load.demand")?;
            0.0
        }
        Load::Offered(offered) => {
            check(offered, "load.offered")?;
            as_is / offered
        }
    };
    for job in jobs.iter_mut() {
        job.submitted_at = BEGIN.plus(made::times(job.submitted_at.since(first), factor));
    }
    let last = if factor > 0.0 { made::times(span, factor) } else { span };
    Ok((if factor > 0.0 { as_is / factor } else { as_is }, last))
}

fn check(load: f64, place: &str) -> Result<(), Error> {
    if load.is_finite() && load > 0.0 {
        return Ok(());
    }
    Err(Error::value(place, format!("{load} is no load"), "write a number above 0, like 2.0"))
}

fn settings_of(scenario: &Scenario, variant: &[(String, String)]) -> Result<Settings, Error> {
    let mut made = Settings {
        allow_simulated: true,
        // Days in virtual time: rounds that a person would not tell apart are one, and no beat is worth an event.
        debounce: Span::from_secs(5),
        recheck: Span::from_mins(1),
        beat: Span::from_mins(10),
        silent_after: Span::from_mins(15),
        unreachable_after: Span::from_mins(20),
        ..Settings::default()
    };
    if scenario.models.failures.is_none() {
        (made.silent_after, made.unreachable_after) = (Span::MAX, Span::MAX);
    }
    let said = scenario.settings.iter().map(|(key, value)| (key.as_str(), value.0.as_str()));
    let varied = variant.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in said.chain(varied) {
        set(&mut made, key, value)?;
    }
    Ok(made)
}

/// Sets one setting from its text.
fn set(to: &mut Settings, key: &str, value: &str) -> Result<(), Error> {
    let place = format!("settings.{key}");
    let wrong = |fix: &str| Error::value(place.clone(), format!("`{value}` cannot be its value"), fix);
    let number = match settings::Kind::of(key) {
        Some(settings::Kind::Flag) => match value {
            "yes" | "true" | "1" => 1,
            "no" | "false" | "0" => 0,
            _ => return Err(wrong("write yes or no")),
        },
        Some(settings::Kind::Count) => value.parse().map_err(|_| wrong("write a whole number"))?,
        Some(settings::Kind::Time) => written::parse(value)
            .map_err(|why| Error::value(place.clone(), why, "write a time like `8h`"))?
            .as_millis(),
        None => {
            return Err(Error::value(
                place,
                "there is no such setting",
                "docs/operate/settings.md has them all",
            ));
        }
    };
    settings::set(to, key, number)
        .map_err(|why| Error::value(place, why.to_string(), "see docs/operate/settings.md"))
}

fn machines(kinds: &[Nodes]) -> Result<Vec<NodeSetup>, Error> {
    let mut machines = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let place = |field: &str| format!("nodes[{at}].{field}");
        if kind.count == 0 || kind.gpus == 0 || kind.gpus > 64 {
            let what = format!("{} machines with {} GPUs", kind.count, kind.gpus);
            return Err(Error::value(place("gpus"), what, "write at least one machine with 1 to 64 GPUs"));
        }
        let named = |text: &str, field: &str| {
            Name::new(text).map_err(|why| Error::value(place(field), why.to_string(), "write a-z, 0-9 and -"))
        };
        let gpu_type = Label::new(&kind.gpu_type)
            .map_err(|why| Error::value(place("gpu_type"), why.to_string(), "write a shorter name"))?;
        for number in 0..kind.count {
            let rack = kind.rack.map(|rack| number / rack.max(1));
            let topology = rack.map(|rack| named(&format!("rack-{rack:03}"), "rack")).transpose()?;
            machines.push(NodeSetup {
                name: named(&format!("{}-{number:04}", kind.cluster), "cluster")?,
                cluster: named(&kind.cluster, "cluster")?,
                topology: topology.into_iter().collect(),
                gpus: kind.gpus,
                gpu_type: gpu_type.clone(),
                cpus: kind.cpus.unwrap_or(12 * kind.gpus),
                memory: Bytes::new(kind.memory.map_or(u64::from(kind.gpus) << 37, |memory| memory.0)),
            });
        }
    }
    let mut names = std::collections::BTreeSet::new();
    for (at, machine) in machines.iter_mut().enumerate() {
        // Two kinds in one cluster count on.
        if !names.insert(machine.name.clone()) {
            let text = format!("{}-{at:04}", machine.cluster);
            machine.name = Name::new(&text)
                .map_err(|why| Error::value("nodes", why.to_string(), "write a shorter cluster"))?;
            names.insert(machine.name.clone());
        }
    }
    if machines.is_empty() {
        return Err(Error::value("nodes", "there are none", "write at least one machine"));
    }
    Ok(machines)
}

fn tree(budgets: &[Budget]) -> Result<TreeNode, Error> {
    let children = budgets.iter().map(|budget| branch(budget, "budgets")).collect::<Result<_, _>>()?;
    let whole = Share::from_ppm(1_000_000).ok_or_else(|| Error::value("budgets", "no whole", ""))?;
    let lab = Name::new("lab").map_err(|why| Error::value("budgets", why.to_string(), ""))?;
    Ok(node(lab, whole, children))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be 0 to 100 percent")]
fn branch(budget: &Budget, above: &str) -> Result<TreeNode, Error> {
    let place = format!("{above}.{}", budget.name);
    let name = Name::new(&budget.name)
        .map_err(|why| Error::value(format!("{place}.name"), why.to_string(), "write a-z, 0-9 and -"))?;
    let wrong = || {
        Error::value(
            format!("{place}.share"),
            format!("{} is no share", budget.share),
            "write 0 to 100 percent",
        )
    };
    if !(0.0..=100.0).contains(&budget.share) {
        return Err(wrong());
    }
    let share = Share::from_ppm((budget.share * PPM_OF_PERCENT).round() as u32).ok_or_else(wrong)?;
    let children = budget.children.iter().map(|child| branch(child, &place)).collect::<Result<_, _>>()?;
    Ok(node(name, share, children))
}

fn node(name: Name, share: Share, children: Vec<TreeNode>) -> TreeNode {
    let (pools, members, defaults) = Default::default();
    TreeNode { name, share, pools, owner: None, members, defaults: ContractDefaults { ..defaults }, children }
}

fn outages(failures: Failures, nodes: &[NodeSetup], seed: u64, end: Timestamp) -> Vec<Outage> {
    let mut all = Vec::new();
    for node in 0..nodes.len() {
        let mut draw = Draw::of(seed, Purpose::Failures, node as u64);
        let mut at = BEGIN.plus(made::times(failures.every.0, draw.exponential()));
        while at < end {
            let until = at.plus(made::times(failures.repair.0, draw.exponential()).max(Span::from_mins(1)));
            all.push(Outage { node, at, until });
            at = until.plus(made::times(failures.every.0, draw.exponential()));
        }
    }
    all.sort_by_key(|outage| (outage.at, outage.node));
    all
}
