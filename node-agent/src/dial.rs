//! Connections to replicas.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Error};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(3);
/// A connection that doesn't answer a ping for so long is gone.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Connects to `host:port`.
///
/// # Errors
///
/// The address isn't one, or nobody answers.
pub async fn connect(server: &str) -> Result<Channel, Error> {
    let endpoint = Endpoint::from_shared(format!("http://{server}"))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    endpoint.connect().await
}
