//! The system calls that std lacks, each wrapped once.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Turns a -1 into the system's error.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a path a C string.
///
/// # Errors
///
/// The path contains a zero byte.
pub fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Reads the boot clock, in ms. It runs on while the machine sleeps and no one can set it.
pub fn boot_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write; this clock exists on every Linux that has pidfds.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000 + nanos / 1_000_000
}

/// Opens a pidfd. A zombie opens too: [`readable`] tells.
///
/// # Errors
///
/// There is no such process.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    let fd = check(i32::try_from(fd).unwrap_or(-1))?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a signal through a pidfd, so that no later process with the same pid gets it.
///
/// # Errors
///
/// The process is gone, or the signal isn't allowed.
pub fn pidfd_signal(pidfd: &OwnedFd, signal: i32) -> io::Result<()> {
    let (fd, signal) = (libc::c_long::from(pidfd.as_raw_fd()), libc::c_long::from(signal));
    // SAFETY: a null siginfo is allowed.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    check(i32::try_from(result).unwrap_or(-1)).map(drop)
}

/// The first version of the kernel's `struct pidfd_info`.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xFF, 11, struct pidfd_info)` for the 64 bytes of its first version.
const PIDFD_GET_INFO: libc::c_ulong = 0xC040_FF0B;

/// Asks the kernel for the wait status of a reaped process; `None` where the kernel can't say (before 6.15) or can't yet.
pub fn pidfd_exit_status(pidfd: &OwnedFd) -> Option<i32> {
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: `info` is 64 bytes, as the request number says, and valid for reads and writes.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (result >= 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// Inode of a pidfd; the same for all processes on kernels without pidfs.
pub fn inode(fd: &OwnedFd) -> Option<u64> {
    // SAFETY: an all-zero `stat` is valid and `fstat` only writes to it.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd.as_raw_fd(), &raw mut stat) == 0).then_some(stat.st_ino)
    }
}

/// Waits until one of `fds` can be read, at most `timeout`. Says for each whether it can.
pub fn wait_readable<const N: usize>(fds: [Option<RawFd>; N], timeout: Duration) -> [bool; N] {
    let mut polls = fds.map(|fd| libc::pollfd { fd: fd.unwrap_or(-1), events: libc::POLLIN, revents: 0 });
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let count = libc::nfds_t::try_from(N).unwrap_or(0);
    // SAFETY: the array is valid for `count` items; negative descriptors are skipped.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), count, millis) };
    if ready <= 0 { [false; N] } else { polls.map(|poll| poll.revents != 0) }
}

/// Says whether a descriptor can be read now: of a pidfd, that the process has ended.
pub fn readable(fd: &OwnedFd) -> bool {
    wait_readable([Some(fd.as_raw_fd())], Duration::ZERO)[0]
}

/// Takes a `flock` without waiting.
///
/// # Errors
///
/// Somebody else has it (`WouldBlock`), or locking isn't possible.
pub fn lock(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) }).map(drop)
}

/// Makes the FIFO `path` and opens it for both ends, so that it never reads as closed.
///
/// # Errors
///
/// It can't be made or opened.
pub fn open_fifo(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    // SAFETY: a valid C string.
    let made = check(unsafe { libc::mkfifo(path.as_ptr(), 0o600) });
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: a valid C string; the result is a new descriptor or -1.
    let fd = check(unsafe { libc::open(path.as_ptr(), flags) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Empties a non-blocking descriptor.
pub fn drain(fd: &OwnedFd) {
    let mut buffer = [0_u8; 64];
    // SAFETY: the buffer is valid for its length.
    while unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) } > 0 {}
}

/// Makes this process the one that orphaned descendants are handed to.
///
/// # Errors
///
/// The kernel refuses.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Reaps the children of this process that have ended, without waiting. Gives each to `seen` with its status and use.
pub fn reap(mut seen: impl FnMut(i32, i32, &libc::rusage)) {
    loop {
        let mut status = 0;
        // SAFETY: an all-zero `rusage` is valid; both are valid for writes.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if pid <= 0 {
            return;
        }
        seen(pid, status, &usage);
    }
}

/// Forks. The child is the only thread of its process; it must not return to code that expects others.
///
/// # Errors
///
/// No process could be made.
pub fn fork() -> io::Result<i32> {
    // SAFETY: the shim has one thread, so the child's memory is consistent.
    check(unsafe { libc::fork() })
}

/// Ends this process at once, without destructors.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Starts a new session.
pub fn new_session() {
    // SAFETY: no pointers; fails only for a session leader, which is as good.
    unsafe { libc::setsid() };
}

/// Sets what this process does at a signal: ignore it, or the default.
pub fn set_signal(signal: i32, ignored: bool) {
    let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: the two constants are valid actions.
    unsafe { libc::signal(signal, action) };
}

/// Closes every descriptor from 3 on.
pub fn close_inherited() {
    // SAFETY: no pointers. Called first thing, before anything that owns a descriptor exists.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0) };
}

/// Makes a pipe whose ends close at exec: the reading and the writing end.
///
/// # Errors
///
/// No descriptors are left.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: valid for two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: two new descriptors that nobody else owns.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Whether a wait status is an exit, and its code; else the signal.
pub fn decode_status(status: i32) -> Result<i32, i32> {
    if libc::WIFEXITED(status) { Ok(libc::WEXITSTATUS(status)) } else { Err(libc::WTERMSIG(status)) }
}

/// Waits for one child of this process.
pub fn reap_one() {
    // SAFETY: a null status is allowed.
    unsafe { libc::wait(std::ptr::null_mut()) };
}

/// Reaps one child if it has ended; its wait status. `None` if it hasn't, or isn't a child of this process.
pub fn reap_pid(pid: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: valid for the write. A positive pid: never "any child".
    (pid > 0 && unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == pid).then_some(status)
}

/// Says whether a child of this process has ended and waits to be reaped. Reaps none.
pub fn has_ended_child() -> bool {
    // SAFETY: an all-zero `siginfo_t` is valid and then written.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &raw mut info, flags) == 0 && info.si_pid() != 0
    }
}

/// Ends a child of this process that is not reaped.
pub fn end_child(pid: i32) {
    if pid > 0 {
        // SAFETY: no pointers. A positive pid: never a group; it isn't reaped, so it is no other process's.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Closes every descriptor but this one and the standard streams.
pub fn keep_only(fd: OwnedFd) -> Option<OwnedFd> {
    use std::os::fd::IntoRawFd;
    const KEPT: RawFd = 3;
    let old = fd.into_raw_fd();
    // SAFETY: no pointers. What owns the other descriptors is never used again: the caller is a fresh fork that only goes on
    // with what is returned.
    unsafe {
        if libc::dup2(old, KEPT) != KEPT {
            return None;
        }
        libc::syscall(libc::SYS_close_range, 4_u32, u32::MAX, 0);
        Some(OwnedFd::from_raw_fd(KEPT))
    }
}

/// Lets the kernel end this process in so many ms, whatever it is doing then.
pub fn alarm_ms(after_ms: u64) {
    let seconds = u32::try_from(after_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
    set_signal(libc::SIGALRM, false);
    // SAFETY: no pointers.
    unsafe { libc::alarm(seconds) };
}

/// Reads the wall clock, in s since 1970: for what people read, never for a decision about time.
pub fn wall_s() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time.tv_sec
}

/// Sets which permissions new files don't get; returns what they were.
pub fn set_umask(mask: libc::mode_t) -> libc::mode_t {
    // SAFETY: no pointers.
    unsafe { libc::umask(mask) }
}
