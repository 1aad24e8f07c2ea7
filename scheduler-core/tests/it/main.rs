//! What the core decides, shown through its public face.

mod lab;
mod leader;
mod plan;
mod why;
