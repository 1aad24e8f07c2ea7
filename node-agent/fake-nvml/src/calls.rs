//! The exported functions. Each is a thin shell: pointers are checked, the answer is worked out by safe code inside
//! [`guarded`], which turns a panic into an error code.
#![allow(non_snake_case)]
// The contract of every function here is the one of NVML's C header: pointers are null or valid for the stated size.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_uint, c_ulonglong};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::abi::{
    ARGUMENT_VERSION_MISMATCH, Code, EventData, Handle, INSUFFICIENT_SIZE, INVALID_ARGUMENT, MemoryV2,
    NOT_FOUND, NOT_SUPPORTED, PciInfo, ProcessInfo, SUCCESS, UNKNOWN, fill_text, put_text, version_word,
};
use crate::live::{enter, enter_gpu, initialise, shut_down, suffer_initialising};
use crate::state::Gpu;
use crate::{events, processes};

fn guarded(body: impl FnOnce() -> Result<(), Code>) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

fn checked(code: Code) -> Result<(), Code> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

/// Writes through a caller's pointer.
///
/// # Safety
///
/// `place` is null or valid for a write of `T`.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Code> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { place.write(value) };
    Ok(())
}

/// Says that this library is the fake.
#[unsafe(no_mangle)]
pub extern "C" fn bursar_fake_nvml_marker() -> c_uint {
    1
}

/// NVML: initialise.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Code {
    guarded(|| {
        suffer_initialising("nvmlInit_v2")?;
        checked(initialise())
    })
}

/// NVML: initialise with flags, which change nothing here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Code {
    guarded(|| {
        suffer_initialising("nvmlInitWithFlags")?;
        checked(initialise())
    })
}

/// NVML: shut down.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Code {
    guarded(|| checked(shut_down()))
}

/// NVML: text of a return code.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: Code) -> *const c_char {
    let text: &CStr = match code {
        SUCCESS => c"Success",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        _ => c"Simulated Error",
    };
    text.as_ptr()
}

/// NVML: driver version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> Code {
    guarded(|| {
        let state = enter("nvmlSystemGetDriverVersion")?;
        let text = format!("{}-simulated", state.driver_version);
        // SAFETY: the caller's buffer has `length` bytes.
        checked(unsafe { put_text(&text, version, length) })
    })
}

/// NVML: library version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> Code {
    guarded(|| {
        let state = enter("nvmlSystemGetNVMLVersion")?;
        let text = format!("13.{}-simulated", state.driver_version);
        // SAFETY: the caller's buffer has `length` bytes.
        checked(unsafe { put_text(&text, version, length) })
    })
}

/// NVML: number of GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> Code {
    guarded(|| {
        let state = enter("nvmlDeviceGetCount_v2")?;
        let number = c_uint::try_from(state.gpus.len()).map_err(|_| UNKNOWN)?;
        // SAFETY: the caller's pointer.
        unsafe { put(count, number) }
    })
}

/// NVML: handle by index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> Code {
    guarded(|| {
        let handle = usize::try_from(index).map_err(|_| INVALID_ARGUMENT)?.saturating_add(1);
        enter_gpu(handle, "nvmlDeviceGetHandleByIndex_v2")?;
        // SAFETY: the caller's pointer.
        unsafe { put(device, handle) }
    })
}

/// NVML: handle by UUID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Handle) -> Code {
    guarded(|| {
        if uuid.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        let state = enter("nvmlDeviceGetHandleByUUID")?;
        // SAFETY: not null, and a C string by NVML's contract.
        let wanted = unsafe { CStr::from_ptr(uuid) };
        let at = state.gpus.iter().position(|gpu| gpu.uuid.as_bytes() == wanted.to_bytes());
        let handle = at.ok_or(NOT_FOUND)? + 1;
        enter_gpu(handle, "nvmlDeviceGetHandleByUUID")?;
        // SAFETY: the caller's pointer.
        unsafe { put(device, handle) }
    })
}

/// Answers a text of a GPU.
///
/// # Safety
///
/// `buffer` is null or valid for writes of `length` bytes.
unsafe fn gpu_text(
    handle: Handle,
    symbol: &'static str,
    text: impl FnOnce(&Gpu) -> &str,
    (buffer, length): (*mut c_char, c_uint),
) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(handle, symbol)?;
        // SAFETY: the caller's buffer has `length` bytes.
        checked(unsafe { put_text(text(&state.gpus[index]), buffer, length) })
    })
}

/// NVML: UUID of a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, uuid: *mut c_char, length: c_uint) -> Code {
    // SAFETY: passed on.
    unsafe { gpu_text(device, "nvmlDeviceGetUUID", |gpu| &gpu.uuid, (uuid, length)) }
}

/// NVML: product name of a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Handle, name: *mut c_char, length: c_uint) -> Code {
    // SAFETY: passed on.
    unsafe { gpu_text(device, "nvmlDeviceGetName", |gpu| &gpu.name, (name, length)) }
}

/// NVML: serial number of a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSerial(device: Handle, serial: *mut c_char, length: c_uint) -> Code {
    // SAFETY: passed on.
    unsafe { gpu_text(device, "nvmlDeviceGetSerial", |gpu| &gpu.serial, (serial, length)) }
}

/// NVML: minor number of a GPU's device node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, minor: *mut c_uint) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(device, "nvmlDeviceGetMinorNumber")?;
        // SAFETY: the caller's pointer.
        unsafe { put(minor, state.gpus[index].minor) }
    })
}

/// NVML: memory of a GPU. The version word must be the one of this structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: *mut MemoryV2) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(device, "nvmlDeviceGetMemoryInfo_v2")?;
        if memory.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        let version = version_word::<MemoryV2>(2);
        // SAFETY: not null, and valid by NVML's contract.
        if unsafe { (*memory).version } != version {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let (total, used) = (state.gpus[index].memory_total, state.gpus[index].memory_used);
        let free = total.saturating_sub(used);
        // SAFETY: the caller's pointer.
        unsafe { put(memory, MemoryV2 { version, total, reserved: 0, free, used }) }
    })
}

/// NVML: PCI identity of a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: *mut PciInfo) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(device, "nvmlDeviceGetPciInfo_v3")?;
        let id = &state.gpus[index].pci_bus_id;
        let mut parts = id.split([':', '.']).map(|part| c_uint::from_str_radix(part, 16).unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        let (domain, bus, slot) = (next(), next(), next());
        let mut info = PciInfo {
            bus_id_legacy: [0; 16],
            domain,
            bus,
            device: slot,
            device_id: 0x2330_10de,
            subsystem_id: 0x16c1_10de,
            bus_id: [0; 32],
        };
        fill_text(id, &mut info.bus_id);
        fill_text(id.get(4..).unwrap_or(""), &mut info.bus_id_legacy);
        // SAFETY: the caller's pointer.
        unsafe { put(pci, info) }
    })
}

/// NVML: compute processes of a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(device, "nvmlDeviceGetComputeRunningProcesses_v3")?;
        let gpu = &state.gpus[index];
        let mut found = gpu.processes.clone();
        for process in processes::started_for(&gpu.uuid) {
            if !found.iter().any(|known| known.pid == process.pid) {
                found.push(process);
            }
        }
        let list = found.iter().map(|process| ProcessInfo {
            pid: process.pid,
            used_memory: process.memory,
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
        });
        // SAFETY: the caller's pointers, as NVML states them.
        unsafe { put_list(&list.collect::<Vec<_>>(), count, infos) }
    })
}

/// NVML: graphics processes of a GPU; there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> Code {
    guarded(|| {
        enter_gpu(device, "nvmlDeviceGetGraphicsRunningProcesses_v3")?;
        // SAFETY: the caller's pointers, as NVML states them.
        unsafe { put_list(&[], count, infos) }
    })
}

/// NVML: MPS processes of a GPU; there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> Code {
    guarded(|| {
        enter_gpu(device, "nvmlDeviceGetMPSComputeRunningProcesses_v3")?;
        // SAFETY: the caller's pointers, as NVML states them.
        unsafe { put_list(&[], count, infos) }
    })
}

/// Answers a list the way NVML does: the size needed if the caller's array is too small.
///
/// # Safety
///
/// `count` is null or valid; `infos` is null or has room for `*count` items.
unsafe fn put_list(list: &[ProcessInfo], count: *mut c_uint, infos: *mut ProcessInfo) -> Result<(), Code> {
    if count.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, valid by the caller's contract.
    let room = usize::try_from(unsafe { *count }).unwrap_or(0);
    let needed = c_uint::try_from(list.len()).map_err(|_| UNKNOWN)?;
    // SAFETY: the same pointer.
    unsafe { put(count, needed)? };
    if list.len() > room || (infos.is_null() && !list.is_empty()) {
        return Err(INSUFFICIENT_SIZE);
    }
    if !list.is_empty() {
        // SAFETY: `infos` is not null and has room for `room >= list.len()` items.
        unsafe { std::ptr::copy_nonoverlapping(list.as_ptr(), infos, list.len()) };
    }
    Ok(())
}

/// NVML: event types that a GPU supports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(device: Handle, types: *mut c_ulonglong) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(device, "nvmlDeviceGetSupportedEventTypes")?;
        // SAFETY: the caller's pointer.
        unsafe { put(types, state.gpus[index].supported_events) }
    })
}

/// NVML: new event set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(set: *mut usize) -> Code {
    guarded(|| {
        enter("nvmlEventSetCreate")?;
        // SAFETY: the caller's pointer.
        unsafe { put(set, events::create()?) }
    })
}

/// NVML: register a GPU's events.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(device: Handle, types: c_ulonglong, set: usize) -> Code {
    guarded(|| {
        let (state, index) = enter_gpu(device, "nvmlDeviceRegisterEvents")?;
        if types & !state.gpus[index].supported_events != 0 {
            return Err(NOT_SUPPORTED);
        }
        events::register(set, device, types)
    })
}

/// NVML: wait for an event; blocks until one arrives or the time is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(set: usize, data: *mut EventData, timeout_ms: c_uint) -> Code {
    guarded(|| {
        enter("nvmlEventSetWait_v2")?;
        let event = events::wait(set, Duration::from_millis(u64::from(timeout_ms)))?;
        let filled = EventData {
            device: event.gpu + 1,
            event_type: event.event_type,
            event_data: event.data,
            gpu_instance: event.gpu_instance,
            compute_instance: event.compute_instance,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(data, filled) }
    })
}

/// NVML: free an event set.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(set: usize) -> Code {
    guarded(|| events::free(set))
}
