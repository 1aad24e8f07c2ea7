//! The simulator, as its users meet it.
