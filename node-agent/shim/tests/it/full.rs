use std::path::{Path, PathBuf};

use shim::format::{self, Stage, Status};

use crate::support::{Case, preempt};

/// A small disk of its own, where this machine lets a test mount one.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Self> {
        let path = std::ffi::CString::new(at.as_os_str().as_encoded_bytes()).ok()?;
        // SAFETY: valid C strings.
        let mounted = unsafe {
            libc::mount(
                c"none".as_ptr(),
                path.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"size=256k,mode=711".as_ptr().cast(),
            )
        };
        (mounted == 0).then(|| Self(at.to_owned()))
    }

    /// Writes until nothing more goes in.
    fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("filling");
        let mut file = std::fs::File::create(&path).expect("there is room for a name");
        while file.write_all(&[1; 4_096]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let path = std::ffi::CString::new(self.0.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: a valid C string.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn a_full_disk_costs_neither_the_notice_nor_the_exit() {
    let case = Case::new("trap 'exit 9' USR1; echo ready; while :; do sleep 1000 & wait; done");
    let Some(disk) = Disk::mount(case.path()) else {
        println!("not available: a small disk can't be mounted here");
        return;
    };
    std::fs::create_dir(case.path().join(format::JOB)).unwrap();
    case.launch();
    case.said("ready");
    // The order is written while there is room for it.
    let held = case.path().join("held");
    std::fs::write(&held, preempt(600_000).encode()).unwrap();
    case.until("a phase", || case.phase());
    let filling = disk.fill();
    std::fs::rename(held, case.path().join(format::STOP)).unwrap();
    let exit = case.exit();
    assert_eq!((exit.status, exit.noticed), (Status::Code(9), true));
    assert_eq!(case.phase().map(|phase| (phase.stage, phase.noticed)), Some((Stage::Noticing, true)));
    assert!(case.bytes(format::EMPTY).is_none(), "there is no room for the proof");
    std::fs::remove_file(filling).unwrap();
    case.emptied();
    drop(disk);
}
