//! Disks of a lab's own, in files, and everything that can happen to a disk: its power goes, it fails to write or to read,
//! it is full, it stands still, a bit of it flips.
//!
//! ```text
//!   Shelf ── a folder with a name that tells whose it is; what a killed run left is taken down by the next one
//!     └── Disk ── ext4 in a file, ext4 in a file that is larger than its room, or memory
//!           └── one replica's data directory: see OnDisks
//! ```
//!
//! All of it needs root. Where it cannot be had, [`OnDisks::start`] says so and the law returns.

mod damage;
mod fault;
mod load;
mod on_disks;
mod shelf;

pub use damage::{Draw, Target, copy_tree, file_list};
pub use fault::{Ballast, Frozen, newest_mark};
pub use load::{Load, Told};
pub use on_disks::OnDisks;
pub use shelf::{Disk, Make, Shelf, Unavailable};
