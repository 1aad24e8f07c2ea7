//! Random laboratories, the same for the same seed.

/// A small generator: splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
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
/// jobs that wait.
pub fn lab(random: &mut Random) -> String {
    let mut lines = String::new();
    let mut free_slots = Vec::new();
    for node in 1..=1 + random.below(6) {
        let gpus = *random.pick(&[1, 2, 4, 8]);
        let kind = random.pick(&["h100", "h100", "A100"]);
        let pool = if random.one_in(4) { " pool=west" } else { "" };
        let state = *random.pick(&["", "", "", "", " gone", " backoff"]);
        let cpus = *random.pick(&[16, 64]);
        lines += &format!("node n{node} {gpus} {kind}{pool} cpus={cpus}{state}\n");
        free_slots.push((format!("n{node}"), gpus));
    }
    let leaves = budgets(random, &mut lines);
    let mut job = 0;
    for (node, gpus) in free_slots {
        let mut slot = 0;
        while slot < gpus && !random.one_in(3) {
            job += 1;
            let last = slot + random.below(gpus - slot);
            let how = *random.pick(&["", " free", " was", " was", " free was"]);
            let (leaf, hours) = (random.pick(&leaves), 1 + random.below(9));
            let count = last - slot + 1;
            lines += &format!("runs {job}.1 {leaf} {count} {node} {slot}-{last} for={hours}h min=2h{how}\n");
            slot = last + 1;
        }
    }
    for job in 100..100 + random.below(25) {
        lines += &waiting(random, job, &leaves);
    }
    lines
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

fn waiting(random: &mut Random, job: u64, leaves: &[String]) -> String {
    let leaf = random.pick(leaves);
    let gpus = random.pick(&[1, 1, 2, 3, 4, 8]);
    let turn = random.pick(&["", "", " first", " last"]);
    let tier = random.pick(&["", "", " free"]);
    let kind = random.pick(&["", "", "", " type=a100", " type=H100"]);
    let pool = random.pick(&["", "", "", " pool=main", " pool=west"]);
    let cpus = random.pick(&["", "", "", " cpus=12"]);
    let failed = if random.one_in(6) { " failed=n1" } else { "" };
    let min = 1 + random.below(8);
    format!("job {job} {leaf} {gpus} min={min}h{turn}{tier}{kind}{pool}{cpus}{failed}\n")
}
