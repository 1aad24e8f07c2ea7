//! `bursar server`: one replica as a process.

use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::error::Error;
use crate::logging;
use crate::machine;
use crate::replica::Replica;

/// Runs a replica until it is told to stop (TERM or INT): it then hands leadership over and closes its data.
///
/// # Errors
/// When it cannot start, or a listener ends by itself; [`Error::report`] says it whole.
pub fn run(config: Config) -> Result<(), Error> {
    config.check()?;
    logging::start(config.log);
    stop_on_panic();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("server")
        .build()
        .map_err(Error::Runtime)?;
    let ended = runtime.block_on(until_told(config));
    runtime.shutdown_background();
    ended
}

/// Why a replica ends.
enum Why {
    Told,
    Removed,
    Failed(Error),
}

async fn until_told(config: Config) -> Result<(), Error> {
    // Before anything is opened, so that an early signal is not lost.
    let mut term = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    let data = config.data.clone();
    let mut replica = Replica::start(config).await?;
    let removed = replica.removed();
    let why = tokio::select! {
        _ = term.recv() => Why::Told,
        _ = int.recv() => Why::Told,
        () = removed => Why::Removed,
        failed = replica.failed() => Why::Failed(failed),
    };
    match why {
        Why::Told => replica.stop().await,
        // In good order: whoever starts this again is told the same, so nothing need be tried over and over.
        Why::Removed => {
            replica.stop().await;
            eprintln!(
                "bursar: this replica was removed from its cluster and has ended; it never takes part again\n  fix  \
                 delete {}, or bring it back as a new replica: bursar server rebuild -c FILE",
                data.display()
            );
        }
        Why::Failed(failed) => return Err(failed),
    }
    Ok(())
}

/// A panic outside `apply` means that something here is not what it should be: the process ends at once, rather than
/// go on with half of it. Inside `apply` it is caught, on every replica alike.
fn stop_on_panic() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        if !machine::is_applying() {
            eprintln!("bursar: stopping after a panic; start this replica again, its data is safe");
            std::process::abort();
        }
    }));
}
