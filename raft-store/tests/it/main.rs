//! Replicas over real sockets, disks and processes.

mod cluster;
mod damage;
mod killed;
mod members;
mod power;
mod refused;
mod register;
mod replication;
