//! The thread that asks the probe: one look at a time, each begun after it was asked for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::mpsc::Sender as ToLoop;

use crate::config::Config;
use crate::probe::{Answer, Client, Unknown, Xid};

/// Pause between two looks that nobody asked for: how late a change of a GPU's health is seen.
const IDLE: Duration = Duration::from_secs(10);

/// What a look found.
#[derive(Debug)]
pub struct Look {
    /// The highest number asked for before it began; 0 if nobody asked.
    pub number: u64,
    /// What the probe said.
    pub result: Result<Answer, Unknown>,
    /// XID errors that came meanwhile.
    pub xids: Vec<Xid>,
}

/// Starts the thread. It ends when the sender of numbers, or the receiver of looks, is dropped.
pub fn start(config: &Config, looks: ToLoop<Look>) -> Sender<u64> {
    let (ask, asked) = channel();
    let (send_xid, xids) = channel();
    let client = Client::new(config.probe.clone(), config.probe_deadline, send_xid);
    std::thread::spawn(move || run(client, &asked, &xids, &looks));
    ask
}

fn run(mut client: Client, asked: &Receiver<u64>, xids: &Receiver<Xid>, looks: &ToLoop<Look>) {
    let mut number = 0;
    loop {
        number = asked.try_iter().max().unwrap_or(0).max(number);
        let result = client.ask();
        let look = Look { number, result, xids: xids.try_iter().collect() };
        if looks.blocking_send(look).is_err() {
            return;
        }
        match asked.recv_timeout(IDLE) {
            Ok(next) => number = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
