//! Makes `docs/findings.md` and its pictures: real traces under ours and under other policies, sweeps of settings, a toy
//! with a known answer.
//!
//! `cargo xtask findings` runs it, all of it or the parts that are named: `findings toy sweeps/cap`; `findings text` runs
//! nothing and puts the figures that are there into the text. The page is written after each part. The traces are others' and not part of the repository: `BURSAR_TRACES` names their folder
//! (docs/users/traces.md says where they come from).

mod page;
mod parts;
mod pictures;
mod rows;
mod stream;
mod toy;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use simulator::scenario::TRACES;

use page::Page;
use rows::Runs;

/// State is copied in small pieces as it changes: docs/adr/0029. As `bursar` does it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Names no part: the text around them.
const TEXT: &str = "text";

/// A part of the page.
#[derive(Debug, Clone, Copy)]
enum Part {
    Demand,
    Policies(&'static str),
    Sweep(usize),
    Pictures,
    Toy,
    Others,
    Stream,
}

impl Part {
    /// Returns all parts, in the order of the page.
    fn all() -> Vec<Self> {
        let policies = parts::REAL.map(Self::Policies);
        let sweeps = (0..parts::SWEEPS.len()).map(Self::Sweep);
        let first = [Self::Demand].into_iter().chain(policies).chain(sweeps);
        first.chain([Self::Pictures, Self::Toy, Self::Others, Self::Stream]).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Demand => "demand".into(),
            Self::Policies(trace) => format!("policies/{trace}"),
            Self::Sweep(at) => {
                let (trace, key, _) = parts::SWEEPS[at];
                format!("sweeps/{}/{trace}", key.replace(' ', "-"))
            }
            Self::Pictures => "pictures".into(),
            Self::Toy => "toy".into(),
            Self::Others => "others".into(),
            Self::Stream => "stream".into(),
        }
    }

    fn make(self, runs: &Runs, docs: &Path) -> Result<String> {
        match self {
            Self::Demand => parts::demand(runs),
            Self::Policies(trace) => parts::policies(runs, trace),
            Self::Sweep(at) => parts::sweep(runs, parts::SWEEPS[at]),
            Self::Pictures => pictures::pictures(runs, docs),
            Self::Toy => toy::toy(),
            Self::Others => parts::others(runs),
            Self::Stream => stream::stream(),
        }
    }
}

/// Whether a part is meant by a name: its own, or the beginning of it up to a `/`.
fn is_meant(part: &str, named: &str) -> bool {
    part.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == stream::ARGUMENT) {
        return stream::child();
    }
    let (out, named) = arguments.split_first().context("findings PAGE [PART...]")?;
    let out = PathBuf::from(out);
    let traces = std::env::var_os(TRACES).map(PathBuf::from);
    let traces =
        traces.with_context(|| format!("{TRACES} names no folder with traces; see docs/users/traces.md"))?;
    let parts = Part::all();
    let names: Vec<String> = parts.iter().map(|part| part.name()).collect();
    for named in named {
        let is_known = named == TEXT || names.iter().any(|name| is_meant(name, named));
        ensure!(is_known, "there is no part `{named}`: there are {}", names.join(", "));
    }
    let mut page = Page::read(&out, &names)?;
    let runs = Runs::of(traces);
    let docs = out.parent().unwrap_or(Path::new(""));
    for (part, name) in parts.into_iter().zip(&names) {
        if !named.is_empty() && !named.iter().any(|named| is_meant(name, named)) {
            continue;
        }
        eprintln!("{name}");
        page.put(name, part.make(&runs, docs)?);
        // A run takes long: what is there is worth keeping.
        page.write(&out)?;
    }
    page.write(&out)
}
