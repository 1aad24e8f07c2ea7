//! The way from `bursar dev kill-leader` and the like to the `dev` that runs: a line of JSON each way, over a socket
//! in its folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader as AsyncReader};
use tokio::net::UnixStream;

use super::place::Place;
use crate::codes;
use crate::failure::Failure;

/// How long the other side gets.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Request {
    /// Kill -9 the leader.
    KillLeader,
    /// End an agent, from 1.
    KillAgent {
        /// Which.
        n: usize,
        /// Whether by TERM.
        term: bool,
    },
    /// Kill -9 all replicas.
    StopReplicas,
    /// Start them again.
    StartReplicas,
    /// End all.
    Stop,
}

/// What is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    /// Whether it was done.
    pub done: bool,
    /// What there is to say.
    pub said: String,
}

/// Asks the development cluster that runs.
///
/// # Errors
/// When none runs, or it cannot do it.
pub fn ask(place: &Place, request: Request) -> Result<String, Failure> {
    let failed = |why: String| {
        Failure::new(codes::DEV_FAILED, "the development cluster does not answer")
            .why(why)
            .fix(format!("look into {}", place.folder().display()))
    };
    let answer = || -> std::io::Result<String> {
        let mut stream = BlockingStream::connect(place.socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{}\n", serde_json::to_string(&request)?).as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    let line = answer().map_err(|error| failed(error.to_string()))?;
    let reply: Reply = serde_json::from_str(&line).map_err(|error| failed(error.to_string()))?;
    if reply.done { Ok(reply.said) } else { Err(Failure::new(codes::DEV_FAILED, reply.said)) }
}

/// Reads what is asked on a connection; nothing if it is not understood.
pub async fn read(stream: UnixStream) -> Option<(Request, UnixStream)> {
    let mut reader = AsyncReader::new(stream);
    let mut line = String::new();
    tokio::time::timeout(Duration::from_secs(2), reader.read_line(&mut line)).await.ok()?.ok()?;
    let request = serde_json::from_str(&line).ok()?;
    Some((request, reader.into_inner()))
}

/// Answers on a connection.
pub async fn answer(mut stream: UnixStream, reply: &Reply) {
    let Ok(text) = serde_json::to_string(reply) else { return };
    // An asker that left hears nothing.
    let _ = stream.write_all(format!("{text}\n").as_bytes()).await;
}
