//! Reports: what preemption cost, what has room, what a submission would meet, when a node is empty (DESIGN 7).
//!
//! Each is a pure function over state at one moment. Numbers are typed and add up exactly; moments are timestamps that
//! whoever shows them formats.

mod bill;
mod capacity;
mod dry_run;
mod edit;
mod empty;
mod footprint;
mod hours;
mod room;
mod set_time;
mod waits;
mod what_if;

pub use bill::{Biggest, Bills, By, Key, Lost, Row, Size, bill, long_bill};
pub use capacity::{Capacity, Classes, ENDS_SHOWN, Ends, IdleNodes, capacity};

pub use dry_run::{DryRun, Expected, dry_run, submitted};
pub use edit::{PoolEdit, RowEdit, Shift, Side, edit};
pub use empty::{Emptying, Leaving, Order, empty_by, empty_by_order};
pub use footprint::{Footprint, footprint};
pub use hours::{Delivery, HOUR, Hour, Occupancy, Rows, hours, occupancy};
pub use room::{Largest, Room, Within};
pub use set_time::{CutShort, PassedOver, passed_over};
pub use waits::{Wait, WaitBy, WaitKey, Waits, wait, waits};
pub use what_if::{Change, Then, WhatIf, what_if};
