//! Gives memory that the allocator keeps after a peak back to the operating system.
//!
//! This is the only crate with unsafe code. It knows nothing about when a program has had a peak.

/// Returns the free pages of the heap to the operating system, if the C library is glibc. Other C libraries return them
/// by themselves.
///
/// Allocations of other threads wait while their part of the heap is trimmed, which takes some milliseconds for each
/// 100 MiB of free memory. Async code calls the function on a blocking thread.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(
        unsafe_code,
        reason = "no safe function of the standard library or of a maintained crate trims the heap"
    )]
    // SAFETY: `malloc_trim` takes no pointer, may be called at any time on any thread (MT-Safe), and returns only pages
    // without allocated memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
