//! Random laboratories, the same for the same seed.

/// A small generator: splitmix64.
pub struct Random(u64);

impl Random {
    /// The seed is scrambled, or neighbouring ones would be one stream, shifted by one.
    pub fn new(seed: u64) -> Self {
        Self(Self(seed).next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }
}

/// Lines of a laboratory: up to six nodes in up to two pools, a tree of up to three levels, work that runs and ran,
/// jobs that wait; all of these on one node.
pub fn lab(random: &mut Random) -> String {
    lab_with(random, |random| (*random.pick(&[1, 1, 2, 3, 4, 8])).to_string())
}

/// The same, with gangs among the jobs that wait.
pub fn lab_with_gangs(random: &mut Random) -> String {
    lab_with(random, |random| {
        (*random.pick(&["1", "2", "4", "8", "2x1", "2x2", "3x1", "3x2", "2x4", "2x8"])).to_owned()
    })
}

/// The same laboratory, every other one with clusters that share a pool, and with GPUs that do not count alike.
pub fn spread(seed: u64, lab: impl Fn(&mut Random) -> String) -> String {
    let random = &mut Random::new(seed);
    let lines = lab(random);
    if seed.is_multiple_of(2) {
        return lines;
    }
    let weights = ["", "h100:2000", "a100:250", "h100:1500,a100:500"];
    let mut text = String::new();
    for (pool, other) in [("main", "east"), ("west", "far")] {
        text += &format!("pool {pool} {pool},{other} {}\n", random.pick(&weights));
    }
    // A gang runs on the first two, if they are in one pool: so they are in one cluster.
    let first = random.one_in(2);
    for line in lines.lines() {
        let is_other = match line {
            line if line.starts_with("node n1 ") || line.starts_with("node n2 ") => first,
            line if line.starts_with("node ") || line.starts_with("job ") => random.one_in(2),
            _ => false,
        };
        let line =
            if line.starts_with("node ") { line.replace("pool=", "cluster=") } else { line.to_owned() };
        text += &match is_other {
            true => line.replace("=main", "=east").replace("=west", "=far"),
            false => line,
        };
        text.push('\n');
    }
    text
}

fn lab_with(random: &mut Random, shape: impl Fn(&mut Random) -> String) -> String {
    let mut lines = String::new();
    let mut nodes: Vec<(String, u64, &str)> = Vec::new();
    let mut left: Vec<Left> = Vec::new();
    for node in 1..=1 + random.below(6) {
        let gpus = *random.pick(&[1, 2, 4, 8]);
        let kind = random.pick(&["h100", "h100", "h100", "h100", "h100", "A100", "A100", "A100,h100"]);
        let pool = if random.one_in(4) { "west" } else { "main" };
        let states = ["", "", "", "", "", " gone", " backoff", " cordoned", " drains", " closes=6h"];
        let state = *random.pick(&states);
        let cpus = *random.pick(&[16, 64]);
        lines += &format!("node n{node} {gpus} {kind} pool={pool} cpus={cpus}{state}\n");
        nodes.push((format!("n{node}"), gpus, pool));
        left.push(Left { gpus, whole: [cpus, MEMORY], left: [cpus, MEMORY] });
    }
    let leaves = budgets(random, &mut lines);
    let mut job = 0;
    let mut taken = vec![0; nodes.len()];
    if nodes.len() > 1 && nodes[0].2 == nodes[1].2 && random.one_in(2) {
        job += 1;
        let gpus = 1 + random.below(nodes[0].1.min(nodes[1].1));
        let shape = format!("2x{gpus} n1,n2 0-{}", gpus - 1);
        lines += &runs(random, job, &leaves, &shape);
        for at in 0..2 {
            taken[at] = gpus;
            left[at].take(gpus, [None, None]);
        }
    }
    for (((node, gpus, _), taken), left) in nodes.iter().zip(taken).zip(&mut left) {
        let mut slot = taken;
        while slot < *gpus && !random.one_in(4) {
            job += 1;
            let last = slot + random.below((gpus - slot).min(4));
            let asks = left.some(random, last - slot + 1);
            let shape = format!("{} {node} {slot}-{last}{asks}", last - slot + 1);
            lines += &runs(random, job, &leaves, &shape);
            slot = last + 1;
        }
    }
    for job in 100..100 + random.below(25) {
        let shape = shape(random);
        lines += &waiting(random, job, &leaves, &shape);
    }
    lines
}

/// Memory of a node in GiB.
const MEMORY: u64 = 1_024;

/// Cores and memory that a node has left.
struct Left {
    gpus: u64,
    whole: [u64; 2],
    left: [u64; 2],
}

impl Left {
    /// Takes what somebody names, else its GPUs' part.
    fn take(&mut self, gpus: u64, asks: [Option<u64>; 2]) {
        for (at, asked) in asks.into_iter().enumerate() {
            self.left[at] -= asked.unwrap_or(self.whole[at] * gpus / self.gpus);
        }
    }

    /// Takes something that is left, and says what: mostly the GPUs' part.
    fn some(&mut self, random: &mut Random, gpus: u64) -> String {
        let mut asks = [None, None];
        for (at, asked) in asks.iter_mut().enumerate() {
            let part = self.whole[at] * gpus / self.gpus;
            *asked = match random.below(10) {
                0 => Some(random.below(self.left[at] + 1)),
                _ => (self.left[at] < part).then_some(self.left[at]),
            };
        }
        self.take(gpus, asks);
        let named = ["cpus", "memory"].into_iter().zip(asks);
        named.filter_map(|(name, asked)| Some(format!(" {name}={}", asked?))).collect()
    }
}

fn runs(random: &mut Random, job: u64, leaves: &[String], shape: &str) -> String {
    let how = *random.pick(&["", "", "", " free", " free", " was", " free was", " stops", " over"]);
    let turn = random.pick(&["", "", " first", " last"]);
    let once = random.pick(&["", "", "", " once"]);
    let every = random.pick(&["", "", " every=1h"]);
    let saved = random.pick(&["", " saved=5m", " saved=30m", " saved=3h"]);
    let pre = random.pick(&["", "", " pre=1", " pre=2"]);
    let (leaf, hours) = (random.pick(leaves), 1 + random.below(30));
    format!("runs {job}.1 {leaf} {shape} for={hours}h min=2h{how}{turn}{once}{every}{saved}{pre}\n")
}

fn budgets(random: &mut Random, lines: &mut String) -> Vec<String> {
    let mut leaves = Vec::new();
    for top in 0..1 + random.below(4) {
        let share = 5 + random.below(20);
        *lines += &format!("budget t{top} {share}\n");
        let below = random.below(4);
        if below == 0 {
            leaves.push(format!("t{top}"));
        }
        for leaf in 0..below {
            let share = if random.one_in(6) { 0 } else { 1 + random.below(30) };
            *lines += &format!("budget t{top}/l{leaf} {share}\n");
            leaves.push(format!("t{top}/l{leaf}"));
        }
    }
    leaves
}

fn waiting(random: &mut Random, job: u64, leaves: &[String], shape: &str) -> String {
    let leaf = random.pick(leaves);
    let turn = random.pick(&["", "", " first", " last"]);
    let tier = random.pick(&["", "", " free"]);
    let kind = random.pick(&["", "", "", " type=a100", " type=H100"]);
    let pool = random.pick(&["", "", "", " pool=main", " pool=west"]);
    let cpus = random.pick(&["", "", "", "", "", "", " cpus=12", " cpus=16"]);
    let memory = random.pick(&["", "", "", "", "", "", "", "", "", " memory=400", " memory=1000"]);
    let failed = if random.one_in(6) { " failed=n1" } else { "" };
    let min = 1 + random.below(8);
    format!("job {job} {leaf} {shape} min={min}h{turn}{tier}{kind}{pool}{cpus}{memory}{failed}\n")
}
