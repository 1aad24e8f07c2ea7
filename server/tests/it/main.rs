//! One replica and three, over real sockets, logs and files.

#![allow(clippy::unwrap_used, reason = "in a test a missing value is the failure")]

mod asks;
mod budgets;
mod founding;
mod giving_way;
mod history;
mod life;
mod limits;
mod links;
mod past;
mod pools;
mod replication;
mod support;
mod told;
mod words;
