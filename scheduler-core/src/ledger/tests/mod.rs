//! The laws of the ledger, on random histories against sums over plain intervals, and on small cases.

mod cases;
mod history;
mod laws;
mod worth;
