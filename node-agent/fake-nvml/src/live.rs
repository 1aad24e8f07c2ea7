//! The state as this process sees it now: loaded on demand, with call counters for faults.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::{Code, DRIVER_NOT_LOADED, GPU_IS_LOST, Handle, INVALID_ARGUMENT, SUCCESS, UNINITIALIZED};
use crate::state::{self, Fault, Gpu, State};

/// What tells one version of the file from the next.
type Stamp = (u64, u64, i64, i64);

#[derive(Default)]
struct Live {
    initialised: u32,
    loaded: Option<(Stamp, Arc<State>)>,
    calls: HashMap<(Handle, &'static str), u64>,
}

static LIVE: LazyLock<Mutex<Live>> = LazyLock::new(Mutex::default);

/// Takes the lock, also after a panic of another caller: all that is under it is valid at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts an initialisation. The state must be readable.
pub(crate) fn initialise() -> Code {
    if load().is_none() {
        return DRIVER_NOT_LOADED;
    }
    lock(&LIVE).initialised += 1;
    SUCCESS
}

/// Counts a shutdown.
pub(crate) fn shut_down() -> Code {
    let mut live = lock(&LIVE);
    if live.initialised == 0 {
        return UNINITIALIZED;
    }
    live.initialised -= 1;
    SUCCESS
}

/// Returns the state, read again if the file was replaced; `None` if there is no valid one.
pub(crate) fn load() -> Option<Arc<State>> {
    let path = state_path()?;
    let stamp = stamp(&path)?;
    let mut live = lock(&LIVE);
    if let Some((known, state)) = &live.loaded
        && *known == stamp
    {
        return Some(Arc::clone(state));
    }
    let state = Arc::new(state::read(&path).ok()?);
    live.loaded = Some((stamp, Arc::clone(&state)));
    Some(state)
}

/// Begins a call that names no GPU: the state, unless a fault of `symbol` says otherwise.
pub(crate) fn enter(symbol: &'static str) -> Result<Arc<State>, Code> {
    if lock(&LIVE).initialised == 0 {
        return Err(UNINITIALIZED);
    }
    let state = load().ok_or(DRIVER_NOT_LOADED)?;
    suffer(state.faults.get(symbol).copied(), 0, symbol)?;
    Ok(state)
}

/// Begins a call on a GPU: the state and the GPU's index.
pub(crate) fn enter_gpu(handle: Handle, symbol: &'static str) -> Result<(Arc<State>, usize), Code> {
    let state = enter(symbol)?;
    let index = handle.checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    let gpu: &Gpu = state.gpus.get(index).ok_or(INVALID_ARGUMENT)?;
    suffer(gpu.faults.get(symbol).copied(), handle, symbol)?;
    if gpu.lost {
        return Err(GPU_IS_LOST);
    }
    Ok((state, index))
}

/// Applies the fault of `nvmlInit_v2`, which has to work before anything is initialised.
pub(crate) fn suffer_initialising(symbol: &'static str) -> Result<(), Code> {
    let fault = load().and_then(|state| state.faults.get(symbol).copied());
    suffer(fault, 0, symbol)
}

fn suffer(fault: Option<Fault>, handle: Handle, symbol: &'static str) -> Result<(), Code> {
    let Some(fault) = fault else { return Ok(()) };
    let before = {
        let mut live = lock(&LIVE);
        let calls = live.calls.entry((handle, symbol)).or_insert(0);
        *calls += 1;
        *calls - 1
    };
    if before < fault.after_calls {
        return Ok(());
    }
    // The lock is not held: a call that hangs on one GPU leaves the others alone, as with a real driver at its best.
    std::thread::sleep(Duration::from_millis(fault.hang_ms));
    if fault.return_code == SUCCESS { Ok(()) } else { Err(fault.return_code) }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
}

fn state_path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(crate::STATE_VARIABLE) {
        return Some(PathBuf::from(path));
    }
    let mut own = own_path()?.into_os_string();
    own.push(".json");
    Some(PathBuf::from(own))
}

/// Finds the file that this code was loaded from.
fn own_path() -> Option<PathBuf> {
    // SAFETY: an all-zero `Dl_info` is valid, `dladdr` only reads the address it is given, and the name it returns
    // lives as long as the loaded object, which runs this code.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let here = (own_path as fn() -> Option<PathBuf>) as *const libc::c_void;
        if libc::dladdr(here, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}
