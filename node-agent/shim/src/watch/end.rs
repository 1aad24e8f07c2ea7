//! The end of the main process: seen, and written down for good.

use std::time::Duration;

use super::{ENDING_TICK_MS, Main, Watch, persist, read};
use crate::files;
use crate::format::{self, Exit, Status};
use crate::{procs, sys};

/// How long a nurse asks the kernel for the exit of a process that isn't its child.
const EXIT_QUERY_MS: u64 = 5_000;

impl Watch {
    /// Reaps, and keeps the exit of the main process as soon as it is known.
    pub(super) fn collect(&mut self) {
        let mut end = None;
        let main = self.main.pid;
        let own = matches!(self.state, Main::Child);
        let progress = &mut self.progress;
        sys::reap(|pid, status, usage| {
            if own && pid == main {
                end = Some((status, *usage));
            } else {
                progress.reaped(pid);
            }
        });
        match self.state {
            Main::Child => {
                if let Some((status, usage)) = end {
                    self.write_exit(told(status), Some(&usage));
                }
            }
            Main::Stranger => {
                let ended = self.main_fd.as_ref().is_none_or(sys::readable) || !procs::is_alive(self.main);
                if ended {
                    let status = self.query_exit();
                    self.write_exit(status, None);
                }
            }
            Main::Ended => {}
        }
    }

    /// Asks the kernel how a process ended that isn't a child. It answers once the process is reaped by its parent.
    fn query_exit(&self) -> Status {
        let Some(fd) = &self.main_fd else { return Status::Unknown("its end was not seen".to_owned()) };
        let until_ms = sys::boot_ms() + EXIT_QUERY_MS;
        loop {
            if let Some(status) = sys::pidfd_exit_status(fd).or_else(|| self.reaped_by_agent()) {
                return told(status);
            }
            if sys::boot_ms() >= until_ms {
                return Status::Unknown("the kernel does not tell".to_owned());
            }
            std::thread::sleep(Duration::from_millis(ENDING_TICK_MS));
        }
    }

    /// An agent that inherited the process and reaped it says how it ended.
    fn reaped_by_agent(&self) -> Option<i32> {
        let fields = format::Fields::parse(&read(&self.directory, format::REAPED)?).ok()?;
        fields.number("status").ok()
    }

    fn write_exit(&mut self, status: Status, usage: Option<&libc::rusage>) {
        let time_ms = |time: libc::timeval| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            seconds * 1_000 + u64::try_from(time.tv_usec).unwrap_or(0) / 1_000
        };
        let now_ms = sys::boot_ms();
        self.progress.finish(now_ms);
        let timeline = self.timeline();
        let limited = timeline.by_limit && now_ms >= timeline.term_ms;
        let stop = self.stop.as_ref().map(|(stop, _)| stop);
        let exit = Exit {
            boot: self.boot.clone(),
            status,
            launch: None,
            started_ms: Some(self.started_ms),
            ended_ms: now_ms,
            asked: if limited { Some("limit".to_owned()) } else { stop.map(|stop| stop.kind.clone()) },
            generation: stop.map(|stop| stop.generation),
            noticed: self.noticed,
            saved_ms: self.progress.saved_ms(),
            user_ms: usage.map_or(0, |usage| time_ms(usage.ru_utime)),
            system_ms: usage.map_or(0, |usage| time_ms(usage.ru_stime)),
            peak_rss_kib: usage.and_then(|usage| u64::try_from(usage.ru_maxrss).ok()).unwrap_or(0),
            writer: self.writer.to_owned(),
        };
        persist(&self.directory, files::replace, format::EXIT, &exit.encode());
        self.state = Main::Ended;
        // The exit ends the grace early too. Who is left gets as long as TERM would have given to finish a save, then TERM.
        if let Some((stop, _)) = self.stop.as_ref().filter(|_| self.noticed) {
            let lead_ms = stop.kill_after_ms.saturating_sub(stop.term_after_ms);
            self.saved_ms.get_or_insert(now_ms.saturating_add(lead_ms));
        }
    }
}

fn told(status: i32) -> Status {
    match sys::decode_status(status) {
        Ok(code) => Status::Code(code),
        Err(signal) => Status::Signal(signal),
    }
}
