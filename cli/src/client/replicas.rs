//! The replicas of a control plane: their addresses, and connections to them.

use std::time::Duration;

use proto::v1::control_client::ControlClient;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::codes;
use crate::failure::Failure;

/// The generated client with our token on each call.
pub type Control = ControlClient<InterceptedService<Channel, Bearer>>;

/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_millis(1000);

/// The largest answer taken: a long list of jobs.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A replica's address.
#[derive(Debug, Clone)]
pub struct Replica {
    /// As the user wrote it.
    pub address: String,
    endpoint: Endpoint,
}

impl Replica {
    /// Reads an address, with or without `http://`.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(address: &str) -> Result<Self, Failure> {
        let wrong = |why: String| {
            Failure::new(codes::CONTEXT, format!("`{address}` is not a replica's address"))
                .why(why)
                .fix("write HOST:PORT")
        };
        if address.starts_with("https://") {
            return Err(wrong(
                "TLS cannot be spoken yet; replicas listen on loopback only until it can".into(),
            ));
        }
        let host = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        if host.rsplit_once(':').is_none_or(|(name, port)| name.is_empty() || port.parse::<u16>().is_err()) {
            return Err(wrong("it has no port".into()));
        }
        let endpoint = Endpoint::from_shared(format!("http://{host}"))
            .map_err(|error| wrong(error.to_string()))?
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(5))
            .keep_alive_timeout(Duration::from_secs(3))
            .keep_alive_while_idle(true);
        Ok(Self { address: host.to_string(), endpoint })
    }

    /// Connects, without a service yet.
    ///
    /// # Errors
    /// When nothing answers there.
    pub async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        self.endpoint.connect().await
    }

    /// Connects.
    ///
    /// # Errors
    /// When nothing answers there.
    pub async fn connect(&self, token: Option<&Bearer>) -> Result<Control, tonic::transport::Error> {
        let channel = self.channel().await?;
        let bearer = token.cloned().unwrap_or_default();
        Ok(ControlClient::with_interceptor(channel, bearer).max_decoding_message_size(ANSWER_BYTES_MAX))
    }
}

/// Who calls; nobody if there is no token.
#[derive(Clone, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer")
    }
}

impl Bearer {
    /// Makes it from a token.
    ///
    /// # Errors
    /// When the token has characters that no token has.
    pub fn new(token: &str) -> Result<Self, Failure> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| {
            Failure::new(codes::BAD_TOKEN, "the token has characters that no token has")
                .fix("check where it came from")
        })?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, tonic::Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}
