//! What readers see: the state after a batch of the log, frozen.

use std::sync::Arc;
use std::time::Duration;

use scheduler_core::id::{LogIndex, Term};
use scheduler_core::state::State;
use tokio::sync::watch;

/// The state as of one index of the log. Cheap to share, never changes.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The last entry of the log that is in it, blank ones included.
    pub index: LogIndex,
    /// That entry's term.
    pub term: Term,
    /// The state.
    pub state: State,
}

/// Where the machine publishes views.
#[derive(Debug)]
pub struct Publisher {
    out: watch::Sender<Arc<View>>,
}

/// Where readers take views from; clones see the same.
#[derive(Debug, Clone)]
pub struct Views {
    from: watch::Receiver<Arc<View>>,
}

/// Makes the two ends.
#[must_use]
pub fn channel() -> (Publisher, Views) {
    let (out, from) = watch::channel(Arc::new(View::default()));
    (Publisher { out }, Views { from })
}

impl Publisher {
    /// Lets everyone see `view` from now on.
    pub fn publish(&self, view: View) {
        self.out.send_replace(Arc::new(view));
    }
}

impl Views {
    /// Returns the newest view.
    #[must_use]
    pub fn now(&self) -> Arc<View> {
        self.from.borrow().clone()
    }

    /// Returns a view that has at least `index`; `None` if there is none in time, or never again.
    pub async fn at_least(&self, index: LogIndex, patience: Duration) -> Option<Arc<View>> {
        self.when(patience, |view| view.index >= index).await
    }

    /// Returns the first view from now on that is as asked; `None` if there is none in time, or never again.
    pub async fn when(&self, patience: Duration, mut is_it: impl FnMut(&View) -> bool) -> Option<Arc<View>> {
        let mut from = self.from.clone();
        let wait = from.wait_for(|view| is_it(view));
        let found = tokio::time::timeout(patience, wait).await.ok()?.ok()?.clone();
        Some(found)
    }

    /// Returns the newest view and takes it as seen.
    #[must_use]
    pub fn take_newest(&mut self) -> Arc<View> {
        self.from.borrow_and_update().clone()
    }

    /// Waits until a view that this receiver has not seen is there; `false` if there never will be.
    pub async fn changed(&mut self) -> bool {
        self.from.changed().await.is_ok()
    }
}
