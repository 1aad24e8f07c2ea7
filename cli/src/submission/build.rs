//! A submission from its file and flags, as the messages that go out.

use std::collections::BTreeMap;
use std::env;

use proto::v1::{AfterJob, Command, EnvVar, JobRequest, Launch, Shape, launch::Program};
use serde_saphyr::{Location, Spanned};

use super::file::Submission;
use super::flags::Flags;
use super::place::Origin;
use super::scalar;
use crate::client::Client;
use crate::codes;
use crate::failure::{Failure, Mark};
use crate::form::{duration, size};
use crate::shell::Shell;

/// A submission ready to go out, and what is needed to talk about it.
#[derive(Debug)]
pub struct Ready {
    /// What decisions read.
    pub job: JobRequest,
    /// What the node reads.
    pub launch: Launch,
    /// When it may start at the earliest, as it was said; read against cluster time when it goes out.
    begin: Option<String>,
    /// Where its tier was said: `min_runtime in train.yaml`, `--min-runtime`; empty if nowhere.
    pub tier_from: String,
    origin: Origin,
    places: BTreeMap<&'static str, Location>,
}

impl Ready {
    /// Reads what was said relative to now, which is the control plane's.
    ///
    /// # Errors
    /// When it is no moment to come.
    pub async fn settle(&mut self, shell: &Shell, client: &Client) -> Result<(), Failure> {
        let Some(text) = &self.begin else { return Ok(()) };
        let now = client.hello().await?.cluster_time_at;
        let at = shell.look.zone.later(text, now).map_err(|what| {
            let mark = self.places.get("begin").and_then(|at| self.origin.mark(*at, ""));
            Failure::new(codes::MOMENT, format!("begin: {what}"))
                .at(self.origin.place(mark.into_iter().collect()))
                .closing("nothing was submitted")
        })?;
        self.job.begin_at = Some(at);
        Ok(())
    }

    /// Points a refusal to the fields it is about.
    pub fn point(&self, failure: Failure) -> Failure {
        let minimum = self.job.min_runtime_ms.map(duration::long).unwrap_or_default();
        let limit = self.job.time_limit_ms.map(duration::long).unwrap_or_default();
        let labels: &[(&str, String)] = match failure.code {
            1202 => &[("min_runtime", format!("{minimum} of protection"))],
            1203 => &[
                ("min_runtime", format!("{minimum} of protection")),
                ("time_limit", format!("but the job is stopped after {limit}")),
            ],
            1205 => &[
                ("gpus", String::new()),
                ("nodes", String::new()),
                ("gpus_per_node", String::new()),
                ("gpu_type", String::new()),
                ("within", String::new()),
            ],
            1301..=1304 => &[("budget", String::new())],
            _ => &[],
        };
        let mark = |(field, label): &(&str, String)| -> Option<Mark> {
            self.origin.mark(*self.places.get(field)?, label)
        };
        let place = self.origin.place(labels.iter().filter_map(mark).collect());
        failure.at(place).closing("nothing was submitted")
    }
}

/// Joins file and flags.
///
/// # Errors
/// When a value is wrong, or the submission says too little.
pub fn build(
    (file, origin): (Submission, Origin),
    flags: &Flags,
    argv: Vec<String>,
    default_budget: Option<String>,
) -> Result<Ready, Failure> {
    no_priority(flags)?;
    let mut places = places(&file);
    let program = program(&file, argv)?;
    let budget = budget(&file, flags, default_budget, &mut places)?;
    let name = match (&flags.name, &file.name) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.value.clone(),
        (None, None) => default_name(&program),
    };
    let shape = shape(&file, flags, &mut places)?;
    let (min_runtime_ms, tier_from) = tier(&file, flags, &origin, &mut places)?;
    let contract = &file.contract;
    let time = |flag: &Option<String>, field: &Option<Spanned<scalar::Duration>>, name: &str| match flag {
        Some(text) => flag_duration(text, name).map(Some),
        None => Ok(field.as_ref().map(|field| field.value.0)),
    };
    if flags.time_limit.is_some() {
        places.remove("time_limit");
    }
    let signal = match &flags.signal {
        Some(text) => Some(scalar::signal(text).map_err(|what| Failure::new(codes::USAGE, what))?),
        None => contract.signal.as_ref().map(|signal| signal.value.0),
    };
    let job = JobRequest {
        name,
        budget,
        cluster: flags.cluster.clone().or_else(|| text(&file.cluster)),
        shape: Some(shape),
        min_runtime_ms,
        time_limit_ms: time(&flags.time_limit, &contract.time_limit, "--time-limit")?,
        resumable: match (flags.resumable, flags.not_resumable) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => contract.resumable.as_ref().map(|resumable| resumable.value),
        },
        grace_ms: time(&flags.grace, &contract.grace, "--grace")?,
        signal,
        checkpoint_every_ms: time(&flags.checkpoint_every, &contract.checkpoint_every, "--checkpoint-every")?,
        checkpoint_glob: flags.checkpoint_glob.clone().or_else(|| text(&contract.checkpoint_glob)),
        requeue_code: flags.requeue_code.or(contract.requeue_code.as_ref().map(|code| code.value)),
        retries: flags.retries.or(contract.retries.as_ref().map(|n| n.value)).unwrap_or(0),
        turn: flags.turn.or(contract.turn.as_ref().map(|turn| turn.value)).map(|turn| turn.word().into()),
        held: false,
        begin_at: None,
        after: after(&file, flags)?,
        exclude: match flags.exclude.is_empty() {
            true => file.resources.exclude.iter().map(|node| node.value.clone()).collect(),
            false => flags.exclude.clone(),
        },
        array: match &flags.array {
            Some(text) => {
                Some(scalar::array(text).map_err(|what| Failure::new(1201, format!("--array: {what}")))?)
            }
            None => file.array.as_ref().map(|array| array.value.0.clone()),
        },
    };
    let launch = launch(&file, flags, program, job.checkpoint_glob.clone())?;
    let begin = flags.begin.clone().or_else(|| text(&file.begin));
    if flags.begin.is_some() {
        places.remove("begin");
    }
    Ok(Ready { job, launch, begin, tier_from, origin, places })
}

/// Returns what must have ended first: the flags', or else the file's.
fn after(file: &Submission, flags: &Flags) -> Result<Vec<AfterJob>, Failure> {
    if flags.after.is_empty() {
        return Ok(file.after.iter().map(|after| after.value.0).collect());
    }
    let read = |text: &String| {
        scalar::after(text).map_err(|what| Failure::new(codes::USAGE, format!("--after: {what}")))
    };
    flags.after.iter().map(read).collect()
}

fn text(field: &Option<Spanned<String>>) -> Option<String> {
    field.as_ref().map(|field| field.value.clone())
}

fn flag_duration(text: &str, flag: &str) -> Result<u64, Failure> {
    let span = duration::parse(text);
    span.map(|span| span.as_millis()).map_err(|what| Failure::new(codes::DURATION, format!("{flag}: {what}")))
}

fn no_priority(flags: &Flags) -> Result<(), Failure> {
    if flags.priority.is_none() {
        return Ok(());
    }
    Err(Failure::new(codes::NO_PRIORITY, "there is no --priority")
        .why(
            "when it costs nothing to say that a job matters more, every job does\n\
             between teams the budgets order: lower use of the allocation goes first (bursar budget tree)",
        )
        .fix(
            "--turn first|normal|last orders the jobs of your own budget, and means nothing to anybody else\n\
             to start sooner: a shorter --min-runtime, fewer GPUs, or --unallocated (free tier)",
        ))
}

fn places(file: &Submission) -> BTreeMap<&'static str, Location> {
    let (r, c) = (&file.resources, &file.contract);
    let all = [
        ("begin", file.begin.as_ref().map(|f| f.referenced)),
        ("budget", file.budget.as_ref().map(|f| f.referenced)),
        ("gpus", r.gpus.as_ref().map(|f| f.referenced)),
        ("nodes", r.nodes.as_ref().map(|f| f.referenced)),
        ("gpus_per_node", r.gpus_per_node.as_ref().map(|f| f.referenced)),
        ("within", r.within.as_ref().map(|f| f.referenced)),
        ("gpu_type", r.gpu_type.as_ref().map(|f| f.referenced)),
        ("min_runtime", c.min_runtime.as_ref().map(|f| f.referenced)),
        ("time_limit", c.time_limit.as_ref().map(|f| f.referenced)),
    ];
    all.into_iter().filter_map(|(name, at)| Some((name, at?))).collect()
}

fn program(file: &Submission, argv: Vec<String>) -> Result<Program, Failure> {
    let command = |argv| Program::Command(Command { argv });
    if !argv.is_empty() {
        return Ok(command(argv));
    }
    match (&file.command, &file.script) {
        (Some(_), Some(_)) => {
            Err(Failure::new(codes::BAD_FILE, "both `command` and `script` are given").fix("keep one of them"))
        }
        (Some(argv), None) => Ok(command(argv.value.clone())),
        (None, Some(script)) => Ok(Program::Script(script.value.clone())),
        (None, None) => Err(Failure::new(codes::USAGE, "nothing to run")
            .fix("bursar submit FILE, or put the command at the end: bursar submit --budget B --min-runtime 1h -- CMD")),
    }
}

fn budget(
    file: &Submission,
    flags: &Flags,
    default: Option<String>,
    places: &mut BTreeMap<&'static str, Location>,
) -> Result<String, Failure> {
    if flags.budget.is_some() {
        places.remove("budget");
    }
    flags.budget.clone().or_else(|| text(&file.budget)).or(default).ok_or_else(|| {
        Failure::new(codes::USAGE, "no budget is named").why("every job is charged to a leaf of the tree").fix(
            "--budget BUDGET, or `budget:` in the file, or BURSAR_BUDGET; `bursar budget tree` shows them",
        )
    })
}

/// Returns the program's own name, a script's being `script`.
fn default_name(program: &Program) -> String {
    let Program::Command(command) = program else { return "script".into() };
    let first = command.argv.first().map_or("", String::as_str);
    first.rsplit('/').next().unwrap_or(first).to_string()
}

fn shape(
    file: &Submission,
    flags: &Flags,
    places: &mut BTreeMap<&'static str, Location>,
) -> Result<Shape, Failure> {
    let r = &file.resources;
    let in_flags = flags.gpus.is_some() || flags.nodes.is_some() || flags.gpus_per_node.is_some();
    let number = |field: &Option<Spanned<u32>>| field.as_ref().map(|n| n.value);
    let (gpus, nodes, each) = if in_flags {
        // A shape by flags replaces the file's as a whole: parts of two make a third that nobody asked for.
        for field in ["gpus", "nodes", "gpus_per_node"] {
            places.remove(field);
        }
        (flags.gpus, flags.nodes, flags.gpus_per_node)
    } else {
        (number(&r.gpus), number(&r.nodes), number(&r.gpus_per_node))
    };
    let (nodes, gpus_per_node) = nodes_and_gpus(gpus, nodes, each)?;
    if !flags.gpu_type.is_empty() {
        places.remove("gpu_type");
    }
    let file_types = || r.gpu_type.as_ref().map(|types| types.value.words()).unwrap_or_default();
    let types = if flags.gpu_type.is_empty() { file_types() } else { flags.gpu_type.clone() };
    if types.is_empty() && r.gpu_type.is_some() {
        return Err(Failure::new(1201, "`gpu_type` is an empty list").fix("name a type, or leave it out"));
    }
    let mut types = types.into_iter();
    if flags.within.is_some() {
        places.remove("within");
    }
    let memory_bytes = match &flags.memory {
        Some(text) => Some(size::parse(text).map_err(|what| Failure::new(codes::SIZE, what))?),
        None => r.memory.as_ref().map(|size| size.value.0),
    };
    Ok(Shape {
        nodes,
        gpus_per_node,
        gpu_type: types.next(),
        or_types: types.collect(),
        within: flags.within.or(number(&r.within)),
        cpus: flags.cpus.or(number(&r.cpus)),
        memory_bytes,
    })
}

/// Returns nodes and GPUs on each, whichever two of the three numbers were given.
fn nodes_and_gpus(gpus: Option<u32>, nodes: Option<u32>, each: Option<u32>) -> Result<(u32, u32), Failure> {
    let uneven = |gpus: u32, by: u32, what: &str| {
        Failure::new(1201, format!("{gpus} GPUs cannot be divided evenly: {by} {what}"))
            .fix("give `nodes` and `gpus_per_node`")
    };
    match (gpus, nodes, each) {
        (None, None, None) => Ok((1, 1)),
        (Some(gpus), None, None) => Ok((1, gpus)),
        (None, nodes, Some(each)) => Ok((nodes.unwrap_or(1), each)),
        (None, Some(_), None) => {
            Err(Failure::new(1201, "`nodes` is given without `gpus_per_node`").fix("add `gpus_per_node`"))
        }
        (Some(gpus), None, Some(each)) if each > 0 && gpus.is_multiple_of(each) => Ok((gpus / each, each)),
        (Some(gpus), None, Some(each)) => Err(uneven(gpus, each, "on each node")),
        (Some(gpus), Some(nodes), None) if nodes > 0 && gpus.is_multiple_of(nodes) => {
            Ok((nodes, gpus / nodes))
        }
        (Some(gpus), Some(nodes), None) => Err(uneven(gpus, nodes, "nodes")),
        (Some(gpus), Some(nodes), Some(each)) if nodes.checked_mul(each) == Some(gpus) => Ok((nodes, each)),
        (Some(gpus), Some(nodes), Some(each)) => {
            let what = format!("{gpus} GPUs are not {nodes} nodes with {each} each");
            Err(Failure::new(1201, what).fix("leave one of the three out"))
        }
    }
}

/// Returns the minimum runtime (zero: free tier) and who said it.
fn tier(
    file: &Submission,
    flags: &Flags,
    origin: &Origin,
    places: &mut BTreeMap<&'static str, Location>,
) -> Result<(Option<u64>, String), Failure> {
    if flags.unallocated || flags.min_runtime.is_some() {
        places.remove("min_runtime");
    }
    if flags.unallocated {
        return Ok((Some(0), "--unallocated".into()));
    }
    if let Some(text) = &flags.min_runtime {
        return Ok((Some(flag_duration(text, "--min-runtime")?), "--min-runtime".into()));
    }
    let c = &file.contract;
    let is_free = c.unallocated.as_ref().is_some_and(|free| free.value);
    match (&c.min_runtime, is_free) {
        (Some(minimum), true) if minimum.value.0 > 0 => {
            let mark = origin.mark(minimum.referenced, "protection").into_iter().collect();
            Err(Failure::new(codes::BAD_FILE, "`min_runtime` and `unallocated` contradict each other")
                .at(origin.place(mark))
                .why("the free tier is never protected")
                .fix("keep one of them"))
        }
        (Some(minimum), _) => Ok((Some(minimum.value.0), format!("min_runtime in {}", origin.file))),
        (None, true) => Ok((Some(0), format!("unallocated in {}", origin.file))),
        (None, false) => Ok((None, String::new())),
    }
}

fn launch(
    file: &Submission,
    flags: &Flags,
    program: Program,
    checkpoint_glob: Option<String>,
) -> Result<Launch, Failure> {
    let mut variables = file.env.clone();
    for pair in &flags.env {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Failure::new(codes::USAGE, format!("`{pair}` is not a variable")).fix("--env NAME=VALUE")
        })?;
        variables.insert(name.into(), value.into());
    }
    let secrets = file.secrets.iter().chain(&flags.secret).cloned().collect();
    Ok(Launch {
        program: Some(program),
        working_dir: working_dir(file, flags)?,
        output: flags.output_file.clone().or_else(|| text(&file.output)),
        // A map is sorted by name, as the launch's hash wants it.
        env: variables.into_iter().map(|(name, value)| EnvVar { name, value }).collect(),
        secrets,
        checkpoint_glob,
    })
}

/// Returns the working directory as an absolute path; here if nothing was said.
fn working_dir(file: &Submission, flags: &Flags) -> Result<String, Failure> {
    let here = env::current_dir().map_err(|error| {
        Failure::new(codes::FILE, "cannot tell the working directory")
            .why(error.to_string())
            .fix("--working-dir DIR")
    })?;
    let said = flags.working_dir.clone().or_else(|| text(&file.working_dir).map(Into::into));
    let path = said.map_or_else(|| here.clone(), |path| here.join(path));
    path.into_os_string().into_string().map_err(|path| {
        Failure::new(1201, format!("the working directory {} is not valid text", path.display()))
            .fix("--working-dir DIR")
    })
}
