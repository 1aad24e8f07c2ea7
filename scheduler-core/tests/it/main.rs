//! What the core decides, shown through its public face.

mod lab;
mod plan;
