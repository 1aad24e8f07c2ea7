//! Submissions, launches, budget trees, refusals: what clients send and read.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use scheduler_core::array::Indexes;
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{Code, Rejection};
use scheduler_core::id::JobId;
use scheduler_core::spec::{After, Asks, ContractDefaults, Launch, Program, Request, Shape, Turn, Wants};
use scheduler_core::unit::{Bytes, GpuCount, Share};

use crate::error::Error;
use crate::v1;
use crate::wire::{Wire, label, moment, name, narrow, pool_shares, read_pool_shares, required, span};

/// The most bytes of an encoded launch.
pub const LAUNCH_MAX: usize = 64 * 1024;
/// The most bytes of a script.
pub const SCRIPT_MAX: usize = 48 * 1024;

impl Wire for Shape {
    type Message = v1::Shape;

    fn to_wire(&self) -> v1::Shape {
        v1::Shape {
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node.get(),
            gpu_type: self.gpu_type.as_ref().map(ToString::to_string),
            cpus: self.cpus,
            memory_bytes: self.memory.map(Bytes::get),
            or_types: self.or_types.iter().map(ToString::to_string).collect(),
            within: self.within.map(u32::from),
        }
    }

    fn from_wire(m: v1::Shape) -> Result<Self, Error> {
        Ok(Self {
            nodes: m.nodes,
            gpus_per_node: GpuCount::new(m.gpus_per_node),
            gpu_type: m.gpu_type.map(|text| label("gpu_type", &text)).transpose()?,
            cpus: m.cpus,
            memory: m.memory_bytes.map(Bytes::new),
            or_types: m.or_types.iter().map(|text| label("gpu_type", text)).collect::<Result<_, _>>()?,
            within: m.within.map(|level| narrow("within", level)).transpose()?,
        })
    }
}

impl Wire for Turn {
    type Message = String;

    fn to_wire(&self) -> String {
        let word = match self {
            Self::First => "first",
            Self::Normal => "normal",
            Self::Last => "last",
        };
        word.to_owned()
    }

    fn from_wire(text: String) -> Result<Self, Error> {
        match text.as_str() {
            "first" => Ok(Self::First),
            "normal" => Ok(Self::Normal),
            "last" => Ok(Self::Last),
            _ => Err(Error::bad("turn", "it is first, normal or last")),
        }
    }
}

impl Wire for Request {
    type Message = v1::JobRequest;

    fn to_wire(&self) -> v1::JobRequest {
        v1::JobRequest {
            name: self.name.to_string(),
            budget: self.budget.clone(),
            cluster: self.cluster.as_ref().map(ToString::to_string),
            shape: Some(self.shape.to_wire()),
            min_runtime_ms: self.min_runtime.map(|span| span.as_millis()),
            time_limit_ms: self.time_limit.map(|span| span.as_millis()),
            resumable: self.resumable,
            grace_ms: self.grace.map(|span| span.as_millis()),
            signal: self.signal.map(u32::from),
            checkpoint_every_ms: self.checkpoint_every.map(|span| span.as_millis()),
            checkpoint_glob: self.checkpoint_glob.clone(),
            requeue_code: self.requeue_code.map(u32::from),
            retries: u32::from(self.retries),
            turn: self.turn.map(|turn| turn.to_wire()),
            held: self.is_held,
            begin_at: self.asks.begin.map(|at| at.as_millis()),
            after: self.asks.after.iter().map(Wire::to_wire).collect(),
            array: self.asks.array.as_ref().map(ToString::to_string),
            exclude: self.asks.exclude.iter().map(ToString::to_string).collect(),
        }
    }

    fn from_wire(m: v1::JobRequest) -> Result<Self, Error> {
        let signal = m.signal.map(|signal| narrow::<u8>("signal", signal)).transpose()?;
        if signal.is_some_and(|signal| signal == 0 || signal > 64) {
            return Err(Error::bad("signal", "it is a number from 1 to 64"));
        }
        if m.budget.len() > 1024 {
            return Err(Error::bad("budget", "no path is that long"));
        }
        Ok(Self {
            name: label("name", &m.name)?,
            budget: m.budget,
            cluster: m.cluster.map(|text| name("cluster", &text)).transpose()?,
            shape: Shape::from_wire(required("shape", m.shape)?)?,
            min_runtime: m.min_runtime_ms.map(|ms| span("min_runtime", ms)).transpose()?,
            time_limit: m.time_limit_ms.map(|ms| span("time_limit", ms)).transpose()?,
            resumable: m.resumable,
            grace: m.grace_ms.map(|ms| span("grace", ms)).transpose()?,
            signal,
            checkpoint_every: m.checkpoint_every_ms.map(|ms| span("checkpoint_every", ms)).transpose()?,
            checkpoint_glob: m.checkpoint_glob,
            requeue_code: m.requeue_code.map(|code| narrow("requeue_code", code)).transpose()?,
            retries: narrow("retries", m.retries)?,
            turn: m.turn.map(Turn::from_wire).transpose()?,
            is_held: m.held,
            asks: Asks {
                begin: m.begin_at.map(moment),
                after: m.after.into_iter().map(After::from_wire).collect::<Result<_, _>>()?,
                array: m.array.map(|text| indexes(&text)).transpose()?,
                exclude: m.exclude.iter().map(|text| name("exclude", text)).collect::<Result<_, _>>()?,
            },
        })
    }
}

/// Reads which tasks an array has.
pub(crate) fn indexes(text: &str) -> Result<Indexes, Error> {
    if text.len() > 4096 {
        return Err(Error::bad("array", "no list of tasks is that long"));
    }
    Indexes::parse(text).map_err(|error| Error::bad("array", error.to_string()))
}

impl Wire for After {
    type Message = v1::AfterJob;

    fn to_wire(&self) -> v1::AfterJob {
        v1::AfterJob { job: self.job.get(), ok: self.wants == Wants::Success, task: self.task }
    }

    fn from_wire(m: v1::AfterJob) -> Result<Self, Error> {
        let wants = if m.ok { Wants::Success } else { Wants::End };
        Ok(Self { job: JobId::new(m.job), task: m.task, wants })
    }
}

impl Wire for Launch {
    type Message = v1::Launch;

    fn to_wire(&self) -> v1::Launch {
        let program = match &self.program {
            Program::Command(argv) => v1::launch::Program::Command(v1::Command { argv: argv.clone() }),
            Program::Script(text) => v1::launch::Program::Script(text.clone()),
        };
        let env =
            self.env.iter().map(|(name, value)| v1::EnvVar { name: name.clone(), value: value.clone() });
        v1::Launch {
            program: Some(program),
            working_dir: self.working_dir.clone(),
            output: self.output.clone(),
            env: env.collect(),
            secrets: self.secrets.clone(),
            checkpoint_glob: self.checkpoint_glob.clone(),
        }
    }

    fn from_wire(m: v1::Launch) -> Result<Self, Error> {
        let program = program(required("command", m.program)?)?;
        absolute("working_dir", &m.working_dir)?;
        if let Some(output) = &m.output {
            plain("output", output)?;
        }
        let mut env = BTreeMap::new();
        for var in m.env {
            check_variable(&var)?;
            if env.insert(var.name.clone(), var.value).is_some() {
                return Err(Error::bad("env", format!("`{}` stands twice", var.name)));
            }
        }
        m.secrets.iter().try_for_each(|secret| plain("secrets", secret))?;
        if let Some(glob) = &m.checkpoint_glob {
            plain("checkpoint_glob", glob)?;
        }
        Ok(Self {
            program,
            working_dir: m.working_dir,
            output: m.output,
            env,
            secrets: m.secrets,
            checkpoint_glob: m.checkpoint_glob,
        })
    }
}

fn program(program: v1::launch::Program) -> Result<Program, Error> {
    match program {
        v1::launch::Program::Command(command) => {
            if command.argv.first().is_none_or(String::is_empty) {
                return Err(Error::bad("command", "there is no program in it"));
            }
            if command.argv.iter().any(|arg| arg.contains('\0')) {
                return Err(Error::bad("command", "an argument holds a zero byte"));
            }
            Ok(Program::Command(command.argv))
        }
        v1::launch::Program::Script(text) if text.is_empty() => Err(Error::bad("script", "it is empty")),
        v1::launch::Program::Script(text) if text.len() > SCRIPT_MAX => {
            Err(Error::bad("script", format!("{} bytes; at most 48 KiB", text.len())))
        }
        v1::launch::Program::Script(text) => Ok(Program::Script(text)),
    }
}

fn plain(field: &'static str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > 4096 || text.chars().any(char::is_control) {
        return Err(Error::bad(field, "1 to 4,096 bytes without control characters"));
    }
    Ok(())
}

fn absolute(field: &'static str, path: &str) -> Result<(), Error> {
    plain(field, path)?;
    if path.starts_with('/') { Ok(()) } else { Err(Error::bad(field, "a path from `/`")) }
}

/// The prefixes of variables that are ours to set.
const OURS: [&str; 3] = ["BURSAR_", "CUDA_", "NVIDIA_"];

fn check_variable(var: &v1::EnvVar) -> Result<(), Error> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first_is_letter = var.name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first_is_letter || !var.name.chars().all(is_word) {
        let shown: String = var.name.chars().filter(|c| !c.is_control()).take(64).collect();
        return Err(Error::bad("env", format!("`{shown}` is not the name of a variable")));
    }
    if OURS.iter().any(|prefix| var.name.starts_with(prefix)) {
        return Err(Error::bad(
            "env",
            format!("`{}`: BURSAR_, CUDA_ and NVIDIA_ are set by Bursar", var.name),
        ));
    }
    if var.value.contains('\0') {
        return Err(Error::bad("env", format!("the value of `{}` holds a zero byte", var.name)));
    }
    Ok(())
}

/// Checks a client's launch and returns its canonical bytes: the ones that are hashed, stored and sent to nodes.
///
/// # Errors
/// When a field can't be, or the whole is over 64 KiB.
pub fn canonical_launch(message: v1::Launch) -> Result<Vec<u8>, Error> {
    let bytes = Launch::from_wire(message)?.to_wire().encode_to_vec();
    if bytes.len() > LAUNCH_MAX {
        return Err(Error::bad(
            "launch",
            format!("{} bytes with its environment; at most 64 KiB", bytes.len()),
        ));
    }
    Ok(bytes)
}

/// Reads a launch from its canonical bytes.
///
/// # Errors
/// When the bytes are no launch, or one that can't be.
pub fn decode_launch(bytes: &[u8]) -> Result<Launch, Error> {
    Launch::from_wire(v1::Launch::decode(bytes).map_err(|error| Error::NoMessage("launch", error))?)
}

impl Wire for ContractDefaults {
    type Message = v1::ContractDefaults;

    fn to_wire(&self) -> v1::ContractDefaults {
        v1::ContractDefaults {
            min_runtime_ms: self.min_runtime.map(|span| span.as_millis()),
            resumable: self.resumable,
            time_limit_ms: self.time_limit.map(|span| span.as_millis()),
        }
    }

    fn from_wire(m: v1::ContractDefaults) -> Result<Self, Error> {
        Ok(Self {
            min_runtime: m.min_runtime_ms.map(|ms| span("defaults.min_runtime", ms)).transpose()?,
            resumable: m.resumable,
            time_limit: m.time_limit_ms.map(|ms| span("defaults.time_limit", ms)).transpose()?,
        })
    }
}

impl Wire for TreeNode {
    type Message = v1::TreeNode;

    fn to_wire(&self) -> v1::TreeNode {
        v1::TreeNode {
            name: self.name.to_string(),
            share_ppm: self.share.ppm(),
            pools: pool_shares(&self.pools),
            owner: self.owner.as_ref().map(ToString::to_string),
            members: self.members.iter().map(ToString::to_string).collect(),
            defaults: Some(self.defaults.to_wire()),
            children: self.children.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(m: v1::TreeNode) -> Result<Self, Error> {
        let share = Share::from_ppm(m.share_ppm)
            .ok_or_else(|| Error::bad("share", format!("`{}`: more than 100 % of its parent", m.name)))?;
        let members: Result<BTreeSet<_>, _> = m.members.iter().map(|text| name("members", text)).collect();
        Ok(Self {
            name: name("name", &m.name)?,
            share,
            pools: read_pool_shares(&m.pools)?,
            owner: m.owner.map(|text| name("owner", &text)).transpose()?,
            members: members?,
            defaults: ContractDefaults::from_wire(m.defaults.unwrap_or_default())?,
            children: m.children.into_iter().map(Self::from_wire).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for Rejection {
    type Message = v1::Refusal;

    fn to_wire(&self) -> v1::Refusal {
        v1::Refusal {
            code: u32::from(self.code.number()),
            what: self.what.clone(),
            why: self.why.clone(),
            fix: self.fix.clone(),
        }
    }

    fn from_wire(m: v1::Refusal) -> Result<Self, Error> {
        let number: u16 = narrow("code", m.code)?;
        let code =
            Code::of(number).ok_or_else(|| Error::bad("code", format!("B{number} is unknown here")))?;
        Ok(Self { code, what: m.what, why: m.why, fix: m.fix })
    }
}
