//! A library that moves the wall clock of a process. The process loads this library with `LD_PRELOAD`.
//!
//! The environment variable `WALL_CLOCK_OFFSET` names a file that contains the offset in seconds. Each call of
//! [`clock_gettime`] reads this file, so a write to the file makes the clock jump. Monotonic clocks do not change, as
//! when an administrator sets the time.
//!
//! `wall_clock.rs` compiles the library during the test. The library is not part of the test binary.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::OnceLock;

const CLOCK_REALTIME: c_int = 0;
const CLOCK_REALTIME_COARSE: c_int = 5;
/// The pseudo-handle with which `dlsym` searches the libraries after this one.
const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;

#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

type ClockGettime = unsafe extern "C" fn(c_int, *mut Timespec) -> c_int;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// Returns the function `clock_gettime` of the C library.
fn real_clock_gettime() -> ClockGettime {
    static FOUND: OnceLock<ClockGettime> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the C library exports this function with this signature.
        unsafe {
            let symbol = dlsym(RTLD_NEXT, c"clock_gettime".as_ptr());
            std::mem::transmute::<*mut c_void, ClockGettime>(symbol)
        }
    })
}

fn offset() -> i64 {
    static FILE: OnceLock<Option<std::ffi::OsString>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("WALL_CLOCK_OFFSET"));
    let text = file
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Replaces `clock_gettime` of the C library, and adds the offset to the wall clock.
///
/// # Safety
/// `time` must point to a valid `timespec`, as for the original function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: the caller guarantees that `time` is valid.
    let result = unsafe { real_clock_gettime()(clock, time) };
    if result == 0 && matches!(clock, CLOCK_REALTIME | CLOCK_REALTIME_COARSE) {
        // SAFETY: the call succeeded, so `time` is valid and initialized.
        unsafe { (*time).seconds += offset() };
    }
    result
}
