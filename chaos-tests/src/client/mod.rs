//! Callers of a control plane in this process: as `bursar` calls, with one request id over all tries, but many at once.

mod call;
mod request;
mod words;

pub use call::{Bearer, Client, Failed, refusal};
pub use request::{fresh_mark, job, launch, script};
