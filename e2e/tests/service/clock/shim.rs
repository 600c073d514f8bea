//! A library that is preloaded into a process and moves its wall clock. The file that `WALL_CLOCK_OFFSET` names
//! holds by how many seconds; it is read whenever the process asks for the time, so that writing it is a jump.
//! The monotonic clocks stay as they are, as when an administrator sets the time.
//!
//! Compiled by the test that uses it, by itself: it is no part of the test program.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::OnceLock;

const CLOCK_REALTIME: c_int = 0;
const CLOCK_REALTIME_COARSE: c_int = 5;
/// The next library that has the symbol.
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

/// The clock of the machine.
fn machine() -> ClockGettime {
    static FOUND: OnceLock<ClockGettime> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the C library has this function, with this signature.
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

/// `clock_gettime` of the C library, with the wall clock moved.
///
/// # Safety
/// As of the original: `time` points to a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int {
    // SAFETY: what the caller promised.
    let result = unsafe { machine()(clock, time) };
    if result == 0 && matches!(clock, CLOCK_REALTIME | CLOCK_REALTIME_COARSE) {
        // SAFETY: the call succeeded, so it has written here.
        unsafe { (*time).seconds += offset() };
    }
    result
}
