//! Quantities. The unit is in the type; arithmetic is checked or saturates by name.

use alloc::vec::Vec;
use core::fmt;

#[cfg(test)]
mod tests;
pub mod written;

/// A moment of cluster time, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The beginning of time.
    pub const ZERO: Self = Self(0);

    /// Makes a moment from milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Returns milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the moment `span` later, at the end of time at most.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the moment `span` earlier, at the beginning of time at least.
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Returns the time since `earlier`, zero if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time, in milliseconds; at most [`Span::MAX`], ten years, where it comes from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// Returns the median, of an even number the shorter of the two in the middle; none of nothing.
    #[must_use]
    pub fn median(of: &[Self]) -> Option<Self> {
        // Of a few, as each job keeps, nothing is allocated: a round of planning asks for all that may give way.
        let (mut few, mut many) = ([Self::ZERO; 16], Vec::new());
        let sorted = if let Some(few) = few.get_mut(..of.len()) {
            few
        } else {
            many.resize(of.len(), Self::ZERO);
            &mut many
        };
        sorted.copy_from_slice(of);
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    /// No time.
    pub const ZERO: Self = Self(0);
    /// Ten years of 365 days: the longest span taken from outside.
    pub const MAX: Self = Self::from_secs(10 * 365 * 86_400);

    /// Makes a span from milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Makes a span from seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Makes a span from minutes.
    #[must_use]
    pub const fn from_mins(mins: u64) -> Self {
        Self::from_secs(mins.saturating_mul(60))
    }

    /// Makes a span from hours.
    #[must_use]
    pub const fn from_hours(hours: u64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }

    /// Returns milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whether this is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Span {
    /// Writes it exactly, as people do: `7d`, `1h30m`, `250ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
            let whole = rest / ms;
            rest %= ms;
            if whole > 0 {
                write!(f, "{whole}{unit}")?;
            }
        }
        Ok(())
    }
}

/// GPU time, in GPU-milliseconds: eight GPUs for one second are 8,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuMillis(u64);

impl GpuMillis {
    /// Makes a quantity from GPU-milliseconds.
    #[must_use]
    pub const fn new(gpu_ms: u64) -> Self {
        Self(gpu_ms)
    }

    /// Returns GPU-milliseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the time used by `gpus` over `span`, or `None` on overflow.
    #[must_use]
    pub fn used(gpus: GpuCount, span: Span) -> Option<Self> {
        u64::from(gpus.get()).checked_mul(span.as_millis()).map(Self)
    }

    /// Returns the sum, or `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` below zero.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

/// The price of time: rate x time, in milli-GPU-milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChargeMillis(u128);

impl ChargeMillis {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Makes a charge from milli-GPU-milliseconds.
    #[must_use]
    pub const fn new(milli_gpu_ms: u128) -> Self {
        Self(milli_gpu_ms)
    }

    /// Returns milli-GPU-milliseconds.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Returns the charge of `rate` over `span`; cannot overflow.
    #[must_use]
    pub fn of(rate: MilliGpus, span: Span) -> Self {
        Self(u128::from(rate.get()) * u128::from(span.as_millis()))
    }

    /// Returns the sum, or `None` on overflow.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` below zero.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

/// A rate of charge, in thousandths of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MilliGpus(u64);

impl MilliGpus {
    /// Makes a rate from thousandths of a GPU.
    #[must_use]
    pub const fn new(milli: u64) -> Self {
        Self(milli)
    }

    /// Returns thousandths of a GPU.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What a GPU of some type counts in charge and in capacity, in thousandths of a plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// A plain GPU.
    pub const ONE: Self = Self(1000);
    /// The largest there is.
    pub const MAX: Self = Self(1_000_000);

    /// Makes a weight from thousandths; none of nothing, and none above [`Weight::MAX`].
    #[must_use]
    pub const fn from_milli(milli: u32) -> Option<Self> {
        if milli == 0 || milli > Self::MAX.0 { None } else { Some(Self(milli)) }
    }

    /// Returns thousandths.
    #[must_use]
    pub const fn milli(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Weight {
    /// Writes it exactly: `1`, `0.35`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        match (part % 10, part % 100, part) {
            (_, _, 0) => write!(f, "{whole}"),
            (_, 0, _) => write!(f, "{whole}.{}", part / 100),
            (0, _, _) => write!(f, "{whole}.{:02}", part / 10),
            (_, _, _) => write!(f, "{whole}.{part:03}"),
        }
    }
}

/// A number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuCount(u32);

impl GpuCount {
    /// Makes a count.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// Returns the count.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for GpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A share of the parent, in parts per million: 1,000,000 is all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share(u32);

impl Share {
    /// All of the parent.
    pub const WHOLE: Self = Self(1_000_000);

    /// Makes a share; `None` above the whole.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm <= 1_000_000 { Some(Self(ppm)) } else { None }
    }

    /// Returns parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// Returns this part of that part, rounded down.
    #[must_use]
    pub fn of(self, other: Self) -> Self {
        let product = u64::from(self.0) * u64::from(other.0) / u64::from(Self::WHOLE.0);
        Self(u32::try_from(product).expect("a part of a part is at most the whole"))
    }
}

impl fmt::Display for Share {
    /// Writes it exactly, in percent: `12.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut part) = (self.0 / 10_000, self.0 % 10_000);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        let mut digits = 4;
        while part % 10 == 0 {
            part /= 10;
            digits -= 1;
        }
        write!(f, "{whole}.{part:0digits$}%")
    }
}

/// An amount of memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Makes an amount from bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}
