//! Planted mistakes: with the feature `mutants`, which nothing that ships has, one of them is made on purpose, to see
//! that a law of the tests finds it (`cargo xtask mutants`). Without the feature all of this is nothing.

#[cfg(feature = "mutants")]
use core::sync::atomic::{AtomicU8, Ordering};

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The child with the highest use goes first.
    HighestUseFirst,
    /// What a decision sets aside does not count for the next one of its plan.
    SetAsideForgotten,
    /// What an attempt has set aside stays after its end.
    SetAsideKept,
    /// Use is compared without the margin.
    NoMargin,
    /// Leaves are compared instead of the sides where the paths part.
    LeavesCompared,
    /// Work is taken from a budget whatever its use.
    AnybodyIsTaken,
    /// Nobody who was chosen for a gang is left out again.
    NothingTrimmed,
    /// Who never reported counts as if nothing was saved since its go.
    SilenceIsDear,
    /// A drain to come lets everything in.
    WindowIgnored,
    /// A failure of one shape speaks for all shapes of its budget.
    OneFailsForAll,
    /// Later attempts are protected for the minimum alone.
    NoLongerProtection,
    /// On reserved nodes anything is placed.
    BackfillAnything,
    /// A date is found anew in each plan.
    DateMoves,
    /// A claim takes only by its share.
    ClaimWithMargin,
}

impl Mutant {
    /// All of them, with the names by which they are planted.
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::HighestUseFirst, "highest-use-first"),
        (Self::SetAsideForgotten, "set-aside-forgotten"),
        (Self::SetAsideKept, "set-aside-kept"),
        (Self::NoMargin, "no-margin"),
        (Self::LeavesCompared, "leaves-compared"),
        (Self::AnybodyIsTaken, "anybody-is-taken"),
        (Self::NothingTrimmed, "nothing-trimmed"),
        (Self::SilenceIsDear, "silence-is-dear"),
        (Self::WindowIgnored, "window-ignored"),
        (Self::OneFailsForAll, "one-fails-for-all"),
        (Self::NoLongerProtection, "no-longer-protection"),
        (Self::BackfillAnything, "backfill-anything"),
        (Self::DateMoves, "date-moves"),
        (Self::ClaimWithMargin, "claim-with-margin"),
    ];
}

#[cfg(feature = "mutants")]
static PLANTED: AtomicU8 = AtomicU8::new(u8::MAX);

/// Plants a mistake for the rest of the process.
///
/// # Panics
/// If there is none of that name.
#[cfg(feature = "mutants")]
pub fn plant(name: &str) {
    let at = Mutant::ALL.iter().zip(0_u8..).find(|((_, known), _)| *known == name);
    let (_, at) = at.expect("a mistake is planted by its name");
    PLANTED.store(at, Ordering::Relaxed);
}

/// Whether that mistake is to be made.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    let planted = usize::from(PLANTED.load(Ordering::Relaxed));
    Mutant::ALL.get(planted).is_some_and(|(known, _)| *known == mutant)
}

/// No mistake is made on purpose.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
