//! Three replicas on loopback in one process: acknowledged proposals a second, failover, and how leadership
//! stands while somebody else syncs to the same disk.
//!
//! `cargo run --release -p raft-store --example measure`, with `RUST_LOG` to see why a leader changed.
//! `measure foreign SECONDS MIB_A_SECOND` runs the last part alone; the files lie in `TMPDIR`.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use raft_store::{
    BoxError, ClusterId, Committed, Config, Frozen, Machine, Member, PeerSecret, Replica, ReplicaId, Timing,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tracing_subscriber::EnvFilter;

const ENTRY_BYTES: usize = 1024;
const CELL: Duration = Duration::from_secs(2);
const FAILOVERS: usize = 5;

/// Counts entries.
struct Counter(u64);

impl Frozen for Counter {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.0.to_le_bytes())
    }
}

impl Machine for Counter {
    fn apply(&mut self, entries: &[Committed<'_>]) -> Vec<Vec<u8>> {
        entries
            .iter()
            .map(|_| {
                self.0 += 1;
                self.0.to_le_bytes().to_vec()
            })
            .collect()
    }

    fn advanced(&mut self, _: u64, _: u64) {}

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(Self(self.0))
    }

    fn install(&mut self, _: u64, _: u64, snapshot: &mut dyn Read) -> Result<(), BoxError> {
        let mut bytes = [0; 8];
        snapshot.read_exact(&mut bytes)?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

struct Node {
    dir: std::path::PathBuf,
    listener: Option<TcpListener>,
    addr: std::net::SocketAddr,
    running: Option<(Replica, JoinHandle<()>)>,
}

impl Node {
    async fn start(&mut self) -> Result<(), BoxError> {
        let mut config = Config::new(&self.dir, PeerSecret::new([1; 32]));
        config.timing = Timing::FAST;
        let replica = Replica::open(config, Counter(0)).await?;
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(self.addr).await?,
        };
        let server = Server::builder().tcp_nodelay(true).add_service(replica.service());
        let serving = tokio::spawn(async move {
            if let Err(error) = server.serve_with_incoming(TcpListenerStream::new(listener)).await {
                eprintln!("a replica's server ended: {error}");
            }
        });
        self.running = Some((replica, serving));
        Ok(())
    }

    async fn stop(&mut self) {
        if let Some((replica, serving)) = self.running.take() {
            serving.abort();
            // Only its end matters.
            let _ = serving.await;
            replica.shutdown().await;
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(io::stderr).init();
    let dir = tempfile::tempdir()?;
    let mut nodes = Vec::new();
    for id in 1..=3 {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let mut node =
            Node { dir: dir.path().join(id.to_string()), listener: Some(listener), addr, running: None };
        node.start().await?;
        nodes.push(node);
    }
    let members = nodes.iter().zip(1..).map(|(node, id)| Member {
        id: ReplicaId::new(id),
        peer_addr: node.addr.to_string(),
        client_addr: String::new(),
    });
    let members = members.collect();
    let first = nodes[0].running.as_ref().map(|(replica, _)| replica.clone()).ok_or("it was started")?;
    first.found(ClusterId::new([3; 16]), ReplicaId::new(1), members).await?;
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("foreign") {
        let mut number = |fallback| args.next().map_or(Ok(fallback), |text| text.parse::<u64>());
        let (seconds, rate) = (number(60)?, number(8)?);
        return beside_foreign_syncs(&mut nodes, dir.path(), Duration::from_secs(seconds), rate).await;
    }
    println!("{:>8} {:>12} {:>10} {:>10}", "clients", "writes/s", "p50 ms", "p99 ms");
    for clients in [1, 16, 64, 256] {
        let replica = nodes[leader(&nodes).await].running.as_ref().map(|(replica, _)| replica.clone());
        write_cell(replica.ok_or("the leader runs")?, clients).await;
    }
    failovers(&mut nodes).await?;
    beside_foreign_syncs(&mut nodes, dir.path(), Duration::from_secs(20), 8).await
}

async fn leader(nodes: &[Node]) -> usize {
    loop {
        let leads =
            |node: &Node| node.running.as_ref().is_some_and(|(replica, _)| replica.status().is_leader());
        if let Some(at) = nodes.iter().position(leads) {
            return at;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn write_cell(replica: Replica, clients: usize) {
    let over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let (replica, over) = (replica.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let mut took = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    match replica.propose(vec![7; ENTRY_BYTES]).await {
                        Ok(_) => took.push(began.elapsed()),
                        Err(error) => eprintln!("a proposal failed: {error}"),
                    }
                }
                took
            })
        })
        .collect();
    tokio::time::sleep(CELL).await;
    over.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    for task in tasks {
        took.extend(task.await.unwrap_or_default());
    }
    took.sort_unstable();
    let at =
        |percent: usize| took.get(took.len() * percent / 100).map_or(0.0, |span| span.as_secs_f64() * 1e3);
    let rate = took.len() / usize::try_from(CELL.as_secs()).unwrap_or(1);
    println!("{clients:>8} {rate:>12} {:>10.2} {:>10.2}", at(50), at(99));
}

/// Stops the leader without handing over, and waits for the next acknowledged write.
async fn failovers(nodes: &mut [Node]) -> Result<(), BoxError> {
    let mut took = Vec::new();
    for _ in 0..FAILOVERS {
        let lost = leader(nodes).await;
        let (replica, serving) = nodes[lost].running.take().ok_or("the leader runs")?;
        serving.abort();
        let began = Instant::now();
        let stopping = tokio::spawn(async move { replica.shutdown().await });
        loop {
            let next = nodes[leader(nodes).await].running.as_ref().map(|(replica, _)| replica.clone());
            if next.ok_or("it runs")?.propose(vec![7; ENTRY_BYTES]).await.is_ok() {
                break;
            }
        }
        took.push(began.elapsed());
        stopping.await?;
        nodes[lost].start().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    took.sort_unstable();
    println!("leader lost to next acknowledged write: {took:.0?}");
    Ok(())
}

/// Writes and syncs `mib` MiB a second to a file of its own, as another program on the same disk would; returns
/// how long the slowest sync took.
fn sync_until(over: &AtomicBool, file: &std::path::Path, mib: u64) -> io::Result<Duration> {
    let mut file = std::fs::File::create(file)?;
    let piece = vec![3; 64 << 10];
    let pause = Duration::from_micros(1_000_000 / (mib.max(1) * 16));
    let (began, mut pieces, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        file.write_all(&piece)?;
        let syncing = Instant::now();
        file.sync_all()?;
        slowest = slowest.max(syncing.elapsed());
        pieces += 1;
        std::thread::sleep((pause * pieces).saturating_sub(began.elapsed()));
    }
    Ok(slowest)
}

/// Waits for an acknowledged write, and returns the term that it was made in.
async fn settled_term(nodes: &[Node]) -> Result<u64, BoxError> {
    loop {
        let at = leader(nodes).await;
        let replica = nodes[at].running.as_ref().map(|(replica, _)| replica.clone()).ok_or("it runs")?;
        if let Ok(answer) = replica.propose(vec![7; ENTRY_BYTES]).await {
            return Ok(answer.term);
        }
    }
}

/// Counts the terms that begin while one client writes and somebody else syncs: a needless election each.
async fn beside_foreign_syncs(
    nodes: &mut [Node],
    dir: &std::path::Path,
    span: Duration,
    mib: u64,
) -> Result<(), BoxError> {
    let before = settled_term(nodes).await?;
    let over = Arc::new(AtomicBool::new(false));
    let foreign = {
        let (over, file) = (Arc::clone(&over), dir.join("foreign"));
        tokio::task::spawn_blocking(
            move || if mib == 0 { Ok(Duration::ZERO) } else { sync_until(&over, &file, mib) },
        )
    };
    let (began, mut took, mut failed) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < span {
        let at = leader(nodes).await;
        let replica = nodes[at].running.as_ref().map(|(replica, _)| replica.clone()).ok_or("it runs")?;
        let writing = Instant::now();
        match replica.propose(vec![7; ENTRY_BYTES]).await {
            Ok(_) => took.push(writing.elapsed()),
            Err(_) => failed += 1,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    over.store(true, Ordering::Relaxed);
    let slowest = foreign.await??;
    let statuses = nodes.iter().filter_map(|node| node.running.as_ref()).map(|(replica, _)| replica.status());
    let after = statuses.map(|status| status.term).max().unwrap_or_default();
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 1000).copied().unwrap_or_default();
    println!(
        "beside {mib} MiB/s of foreign syncs for {span:.0?}: {} elections, {} writes, {failed} without an answer, \
         p50 {:.1?}, p99 {:.1?}, slowest {:.1?}; the slowest foreign sync took {slowest:.0?}",
        after - before,
        took.len(),
        at(500),
        at(990),
        took.last().copied().unwrap_or_default()
    );
    for node in nodes {
        node.stop().await;
    }
    Ok(())
}
