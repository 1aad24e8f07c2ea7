//! Chances. Each job has its own stream, so that what is drawn for one never depends on the others.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of chances.
#[derive(Debug)]
pub(super) struct Draw(ChaCha8Rng);

/// What a stream is for: streams of different purposes are independent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Terms = 1,
    Team,
    Made,
    Failures,
}

impl Draw {
    /// Returns the stream of a purpose and a number within it.
    pub(super) fn of(seed: u64, purpose: Purpose, number: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
        key[16..24].copy_from_slice(&number.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Returns a number from 0 to just below 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// Whether something of this probability happens.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number below `end`; 0 if that is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.random_range(0..end) }
    }

    /// Returns one of them.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(of.len()).ok()?;
        of.get(usize::try_from(self.below(count)).ok()?)
    }

    /// Returns the place of one of these weights, as often as it weighs.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (at, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return at;
            }
        }
        weights.len().saturating_sub(1)
    }

    /// Returns a standard normal number (Box and Muller, 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns an exponential number with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}
