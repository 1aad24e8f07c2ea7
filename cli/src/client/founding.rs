//! The founding: one call, to one replica, with its setup secret.

use std::time::Duration;

use proto::v1::setup_client::SetupClient;
use proto::v1::{FoundReply, FoundRequest};
use tokio::time::{sleep, timeout};

use super::refused::{self, Answer};
use super::replicas::{Bearer, Replica};
use crate::clock::Deadline;
use crate::codes;
use crate::failure::Failure;

/// A founding waits until its founders have elected a leader.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Founds a control plane.
///
/// # Errors
/// When it is refused, or the replica does not answer.
pub async fn found(address: &str, secret: &str, request: FoundRequest) -> Result<FoundReply, Failure> {
    let replica = Replica::new(address)?;
    let bearer = Bearer::new(secret)?;
    let deadline = Deadline::after(ANSWER_WITHIN);
    loop {
        let why = match replica.channel().await {
            Err(error) => error.to_string(),
            Ok(channel) => {
                let mut setup = SetupClient::with_interceptor(channel, bearer.clone());
                match timeout(deadline.left(), setup.found(request.clone())).await {
                    Ok(Ok(reply)) => return Ok(reply.into_inner()),
                    Ok(Err(status)) => match refused::judge(&status) {
                        Answer::Refused(failure) => return Err(failure),
                        Answer::Again(why) => why,
                    },
                    Err(_) => "no answer in time".into(),
                }
            }
        };
        if deadline.is_over() {
            return Err(Failure::new(codes::UNREACHABLE, format!("{address} does not found")).why(why));
        }
        sleep(Duration::from_millis(100)).await;
    }
}
