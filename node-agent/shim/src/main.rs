//! `bursar-shim --attempt DIR` launches the attempt in a directory and stays with it. `bursar-shim --nurse DIR` takes over a
//! launched one whose shim is gone. `bursar-shim --read UID GID GROUPS PATH OFFSET LENGTH` writes a part of a file to
//! standard output, opened as that account. See the library for the contract.
//!
//! The first process returns once the one that stays has the attempt's lock (code 0), or with the code of
//! [`shim::watch::Refusal`].

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use shim::watch::{self, Refusal};
use shim::{reader, sys};

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match arguments.as_slice() {
        [mode, directory] if mode == "--attempt" || mode == "--nurse" => {
            sys::close_inherited();
            detach(Path::new(directory), mode == "--nurse")
        }
        [mode, rest @ ..] if mode == "--read" => reader::run(rest),
        _ => {
            let _ = writeln!(std::io::stderr(), "usage: bursar-shim --attempt DIRECTORY | --nurse DIRECTORY");
            2
        }
    };
    std::process::exit(code)
}

/// Forks twice: the process that stays has no parent that waits for it and leads no session.
fn detach(directory: &Path, nurse: bool) -> i32 {
    let unusable = Refusal::Unusable as i32;
    let Ok(directory) = std::fs::canonicalize(directory) else { return unusable };
    let Ok((told, tell)) = sys::pipe() else { return unusable };
    match sys::fork() {
        Err(_) => unusable,
        Ok(0) => {
            drop(told);
            sys::new_session();
            match sys::fork() {
                Ok(0) => stay(&directory, nurse, tell),
                Ok(_) => sys::exit_now(0),
                Err(_) => sys::exit_now(unusable),
            }
        }
        Ok(_) => {
            drop(tell);
            sys::reap_one();
            let mut answer = [0];
            match std::fs::File::from(told).read(&mut answer) {
                Ok(1) => i32::from(answer[0]),
                _ => unusable,
            }
        }
    }
}

fn stay(directory: &Path, nurse: bool, tell: OwnedFd) -> ! {
    // Only KILL ends a shim: its end is the job's, never a signal that somebody sends to a group or a terminal.
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGPIPE,
        libc::SIGTERM,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        sys::set_signal(signal, true);
    }
    let _ = std::fs::write("/proc/self/oom_score_adj", "-500");
    let _ = std::env::set_current_dir("/");
    let mut tell = Some(std::fs::File::from(tell));
    let mut answer = |code: u8| {
        if let Some(mut tell) = tell.take() {
            let _ = tell.write_all(&[code]);
        }
    };
    let run = if nurse {
        watch::run_nurse(directory, || answer(0))
    } else {
        watch::run_shim(directory, || answer(0))
    };
    match run {
        Ok(()) => sys::exit_now(0),
        Err(refusal) => {
            let code = refusal as i32;
            answer(code.to_le_bytes()[0]);
            sys::exit_now(code)
        }
    }
}
