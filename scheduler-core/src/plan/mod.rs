//! The plan: which waiting job starts next, and where (DESIGN 6).
//!
//! ```text
//!   State + Links ──> Line (who is next)          ──┐
//!                ├──> Idle (what is free, or comes) ──┼──> Plan, proposed by the leader, adopted by `apply`
//!                └──> Victims (who may be taken)    ──┘
//! ```
//!
//! Each pool: funded jobs through the whole tree, then the free tier through the same tree. The next in order starts on
//! idle GPUs; a funded job else on what comes free and what it may take, at the least cost. Who cannot be placed takes
//! nothing and waits, and the next is tried. Nothing here reads a clock, and what is kept between two rounds ([`Known`])
//! follows from the state, so that the leader, a dry run and a simulator get the same answer from the same state.

mod alone;
mod by_fit;
mod class;
mod closest;
mod cover;
mod dates;
mod find_date;
mod first;
mod fit;
mod free_at;
mod gang;
mod idle;
mod known;
mod line;
mod links;
mod offers;
mod price;
mod round;
mod taking;
mod victims;
mod walk;

pub use first::first;
pub use fit::{Shut, closes_at, next_opening, shut};
pub use known::Known;
pub use links::Links;
pub use round::{plan, plan_on};
pub use walk::usual_rate;

pub(crate) use alone::Alone;
pub(crate) use class::{Ask, Class};
pub(crate) use idle::is_heard;
pub(crate) use line::{Line, has_waiting};
pub(crate) use round::{has_windows, pools};
pub(crate) use walk::walk;
