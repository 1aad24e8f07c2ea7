//! What the core decides, shown through its public face.

mod adversaries;
mod apply;
mod cluster_time;
mod dates;
mod explained;
mod lab;
mod leader;
mod leading;
mod lessons;
mod lives;
mod loop_;
mod order;
mod peers;
mod peers_agents;
mod places;
mod plan;
mod pools;
mod random;
mod reference;
mod report;
mod rounds;
mod story;
mod toys;
mod victims;
mod why;
mod world;
