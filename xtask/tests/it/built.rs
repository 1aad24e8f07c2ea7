//! What tests start is really built, and clusters take turns.

use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn shim_and_fake_library_are_built_where_the_test_runs() {
    let shim = xtask::built::shim();
    assert!(shim.is_file() && shim.is_absolute(), "{}", shim.display());
    let library = xtask::built::fake_nvml();
    assert!(library.is_file(), "{}", library.display());
    assert_eq!(library.file_name().and_then(|n| n.to_str()), Some("libbursar_fake_nvml.so"));
}

#[test]
fn one_cluster_at_a_time_even_between_threads() {
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let _lock = xtask::cluster_lock();
                assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
                std::thread::yield_now();
                INSIDE.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
}
