//! An allocator that counts the memory in use, so that the limits of the sessions can be measured.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static USED: Cell<usize> = const { Cell::new(0) };
}

/// Returns the bytes that this thread allocated and did not free.
pub(crate) fn used() -> usize {
    USED.get()
}

/// The system's allocator with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes unchanged to the system's allocator; only sizes are counted beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = USED.try_with(|used| used.set(used.get().wrapping_add(layout.size())));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = USED.try_with(|used| used.set(used.get().wrapping_sub(layout.size())));
        // SAFETY: the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
