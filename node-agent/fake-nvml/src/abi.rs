//! NVML's C structures and return codes, as far as the fake speaks them.

use std::ffi::{c_char, c_uint, c_ulonglong};

pub(crate) type Code = c_uint;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const UNINITIALIZED: Code = 1;
pub(crate) const INVALID_ARGUMENT: Code = 2;
pub(crate) const NOT_SUPPORTED: Code = 3;
pub(crate) const NOT_FOUND: Code = 6;
pub(crate) const INSUFFICIENT_SIZE: Code = 7;
pub(crate) const DRIVER_NOT_LOADED: Code = 9;
pub(crate) const TIMEOUT: Code = 10;
pub(crate) const GPU_IS_LOST: Code = 15;
pub(crate) const ARGUMENT_VERSION_MISMATCH: Code = 25;
pub(crate) const UNKNOWN: Code = 999;

/// A handle: index + 1, so that a null handle is never a GPU.
pub(crate) type Handle = usize;

#[repr(C)]
pub struct MemoryV2 {
    pub version: c_uint,
    pub total: c_ulonglong,
    pub reserved: c_ulonglong,
    pub free: c_ulonglong,
    pub used: c_ulonglong,
}

#[repr(C)]
pub struct ProcessInfo {
    pub pid: c_uint,
    pub used_memory: c_ulonglong,
    pub gpu_instance: c_uint,
    pub compute_instance: c_uint,
}

#[repr(C)]
pub struct PciInfo {
    pub bus_id_legacy: [c_char; 16],
    pub domain: c_uint,
    pub bus: c_uint,
    pub device: c_uint,
    pub device_id: c_uint,
    pub subsystem_id: c_uint,
    pub bus_id: [c_char; 32],
}

#[repr(C)]
pub struct EventData {
    pub device: Handle,
    pub event_type: c_ulonglong,
    pub event_data: c_ulonglong,
    pub gpu_instance: c_uint,
    pub compute_instance: c_uint,
}

/// The version word of a versioned structure: its size and the version in the top byte.
pub(crate) fn version_word<T>(version: u32) -> c_uint {
    let size = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
    size | (version << 24)
}

/// Copies `text` and a closing zero to a caller's buffer.
///
/// # Safety
///
/// `buffer` is null or valid for writes of `length` bytes.
pub(crate) unsafe fn put_text(text: &str, buffer: *mut c_char, length: c_uint) -> Code {
    let room = usize::try_from(length).unwrap_or(0);
    if buffer.is_null() {
        return INVALID_ARGUMENT;
    }
    if text.len() + 1 > room {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: the caller's buffer has at least `text.len() + 1` bytes, as just checked.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), text.len());
        buffer.add(text.len()).write(0);
    }
    SUCCESS
}

/// Fills a fixed C text field, cut to fit.
pub(crate) fn fill_text(text: &str, field: &mut [c_char]) {
    let room = field.len().saturating_sub(1);
    for (slot, byte) in field.iter_mut().zip(text.bytes().take(room)) {
        *slot = c_char::from_ne_bytes([byte]);
    }
}
