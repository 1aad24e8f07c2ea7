//! Every figure of a run, from its [`Record`] alone: whoever decided is measured by the same code.
//!
//! ```text
//!   Record ──> spans ──> classes, GPUs in service ─┐
//!          └─> books: had, wanted, by budget ──────┴─> owed, load, usage;  waits, heads, bill, dates, room ──> Measures
//! ```
//!
//! Sums are integers of GPU-milliseconds; a ratio is made last, from two of them. What is not known is absent, never
//! zero; what is known as a lower bound only says so ([`Known`]).

mod bill;
mod books;
mod classes;
mod dates;
mod flips;
mod flow;
mod gos;
mod heads;
mod jobs;
mod load;
pub(crate) mod number;
mod owed;
mod quantile;
mod room;
mod run;
mod series;
mod spans;
mod usage;
mod waits;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use bill::{Bill, CauseCost, Cost, MostPreempted, TierCost};
pub(crate) use bill::{tier, word};
use books::Books;
pub use classes::{Classes, Occupancy};
pub use dates::Dates;
use gos::Gos;
pub use heads::Heads;
pub use jobs::Jobs;
pub use load::Load;
pub use owed::{Delivery, Hour, Leaf, Spread};
pub use quantile::Known;
pub use room::{Mean, Room, Rooms};
pub use run::Run;
pub use series::{Lost, Series, series};
pub use usage::{Point, Use};
pub use waits::Waits;

use crate::record::Record;

/// The name and version of the schema of [`Measures`]. A field changes its meaning only with it.
pub const SCHEMA: &str = "bursar.simulate/v1";

/// All figures of a run. Times are milliseconds, GPU time is GPU-milliseconds, ratios are of 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measures {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which run.
    pub run: Run,
    /// What became of the jobs.
    pub jobs: Jobs,
    /// How much was wanted.
    pub load: Load,
    /// GPU time by class.
    pub classes: Classes,
    /// How well the GPUs were used.
    pub occupancy: Occupancy,
    /// Owed and delivered.
    pub delivery: Delivery,
    /// Use by budget.
    pub used: Vec<Use>,
    /// Waits by size, tier, and leaf.
    pub waits: Vec<Waits>,
    /// The first in order.
    pub heads: Heads,
    /// What preemption cost.
    pub bill: Bill,
    /// Dates.
    pub dates: Dates,
    /// Room for large jobs.
    pub rooms: Rooms,
}

impl Measures {
    /// Returns the waits of `of` with so many GPUs, as [`Waits`] names them.
    #[must_use]
    pub fn waits_of(&self, of: &str, gpus: &str) -> Option<&Waits> {
        self.waits.iter().find(|waits| waits.of == of && waits.gpus == gpus)
    }
}

/// Measures a run.
#[must_use]
pub fn measure(record: &Record) -> Measures {
    let (classes, in_service) = classes::classes(record);
    let books = Books::of(record, in_service);
    let bill = bill::bill(record, &classes);
    let moments = usage::later_moments(&books);
    let (mut leaves, mut used) = (Vec::new(), Vec::new());
    for account in books.accounts() {
        used.push(usage::of_budget(&books, &account, &moments));
        if record.budgets[account.budget].is_leaf {
            leaves.push(owed::leaf(&books, &account));
        }
    }
    let gos = Gos::of(record);
    Measures {
        schema: SCHEMA.to_owned(),
        run: run::run(record),
        jobs: jobs::jobs(record),
        load: load::load(&books),
        occupancy: Occupancy::of(&classes, bill.total.lost_gpu_ms),
        classes,
        delivery: owed::delivery(leaves),
        used,
        waits: waits::waits(record),
        heads: heads::heads(record, &gos),
        bill,
        dates: dates::dates(record, &gos),
        rooms: room::rooms(&room::room(record, &room::moments(&books))),
    }
}
