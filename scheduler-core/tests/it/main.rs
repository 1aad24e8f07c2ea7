//! What the core decides, shown through its public face.

mod apply;
mod cluster_time;
mod explained;
mod lab;
mod leader;
mod leading;
mod loop_;
mod peers;
mod peers_agents;
mod plan;
mod random;
mod reference;
mod report;
mod rounds;
mod victims;
mod why;
mod world;
