//! The plan: which waiting job starts next, and where (DESIGN 6).
//!
//! ```text
//!   State + Links ──> Line (who is next)  ──┐
//!                                          ├──> Plan, proposed by the leader, adopted by `apply`
//!                └──> Idle (where is room) ──┘
//! ```
//!
//! One pass over each pool: funded jobs through the whole tree, then the free tier through the same tree. Who cannot
//! be placed waits, and the next is tried. Nothing here reads a clock or keeps anything between two rounds, so that
//! the leader, a dry run and a simulator get the same answer from the same state.

mod class;
mod fit;
mod idle;
mod line;
mod links;
mod round;
mod walk;

pub use fit::{Shut, next_opening, shut};
pub use links::Links;
pub use round::plan;

pub(crate) use class::{Ask, Class};
pub(crate) use idle::Idle;
pub(crate) use line::Line;
pub(crate) use round::pools;
pub(crate) use walk::walk;
