//! Replicas die while they write.

use std::time::Duration;

use anyhow::Result;
use chaos_tests::lab::Lab;

use crate::failover::{Over, Told};

const ROUNDS: u64 = 20;
const THREADS: usize = 2;
/// Between two submissions of one thread.
const PACE: Duration = Duration::from_millis(100);
/// Which replica dies when: fixed, so that a run can be repeated.
const SEED: u64 = 0x5eed_0001;

pub fn killed_replica_always_starts_again_and_misses_nothing_acknowledged(lab: &mut Lab) -> Result<()> {
    let ana = lab.client("ana")?;
    // Nothing can start, so what is submitted stays in line and costs no process.
    let flags = ["--budget", "a", "--gpus", "4", "--unallocated"];
    let blockers = [lab.submit_gated("ana", &flags)?, lab.submit_gated("ana", &flags)?];
    for (_, gate) in &blockers {
        gate.running();
    }
    let prefix = lab.fresh("under-writes");
    eprintln!("seed {SEED:#x}");
    let mut random = Random(SEED);

    let (told, handle) = (Told::default(), lab.handle());
    std::thread::scope(|scope| -> Result<()> {
        for n in 0..THREADS {
            let (told, handle, client) = (&told, handle.clone(), ana.from_replica(n));
            let prefix = format!("{prefix}-{n}");
            scope.spawn(move || told.submit(&client, &handle, &prefix, "true", PACE));
        }
        let over = Over(&told);
        for _ in 0..ROUNDS {
            told.wait_more(1 + random.below(4));
            let victim = random.below(lab.replicas.len());
            lab.replicas[victim].kill();
            told.wait_more(1 + random.below(3));
            let parts = lab.parts.clone();
            lab.replicas[victim].start(&parts)?;
        }
        drop(over);
        Ok(())
    })?;
    let acknowledged = told.assert_kept(lab, &ana, &prefix)?;
    eprintln!("{} writes over {ROUNDS} deaths", acknowledged.len());
    Ok(())
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound).expect("small");
        usize::try_from((mixed ^ (mixed >> 31)) % bound).expect("below a usize")
    }
}
