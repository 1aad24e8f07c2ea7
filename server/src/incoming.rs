//! Connections to a listener, bounded: whoever opens many and says nothing on them keeps nobody else out for long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Accepts connections on a listener; one more than `most` is closed at once.
#[derive(Debug)]
pub struct Incoming {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Incoming {
    /// Takes a listener.
    #[must_use]
    pub fn new(listener: TcpListener, most: usize) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(most)) }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let (tcp, from) = match ready!(self.listener.poll_accept(cx)) {
                Ok(accepted) => accepted,
                // Of one connection, or for want of descriptors: the listener itself is fine.
                Err(cause) => return Poll::Ready(Some(Err(cause))),
            };
            let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
                tracing::warn!(%from, "a connection is closed: there are as many as this replica takes");
                continue;
            };
            // A connection that is gone already shows that when it is read.
            let _ = tcp.set_nodelay(true);
            return Poll::Ready(Some(Ok(Connection { tcp, _place: place })));
        }
    }
}

/// One connection and its place.
#[derive(Debug)]
pub struct Connection {
    tcp: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.tcp.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn one_connection_too_many_is_closed_and_a_place_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut incoming = Incoming::new(listener, 1);
        let _one = TcpStream::connect(addr).await.unwrap();
        let held = incoming.next().await.unwrap().unwrap();
        let mut two = TcpStream::connect(addr).await.unwrap();
        let mut byte = [0];
        tokio::select! {
            _ = incoming.next() => panic!("there is no place for a second one"),
            read = two.read(&mut byte) => assert!(matches!(read, Ok(0) | Err(_))),
        }
        drop(held);
        let _three = TcpStream::connect(addr).await.unwrap();
        assert!(incoming.next().await.unwrap().is_ok());
    }
}
