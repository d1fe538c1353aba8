//! framehop beside clew: its unwinder for x86-64 behind functions that C can call (`programs/framehop.h`).
//!
//! An unwinder belongs to one address space and to one thread at a time. The sections that it is given are read in place and
//! have to stay there.

use std::ffi::{c_int, c_void};
use std::slice;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};

/// What is known of a process: its modules, and rules that were found before, in framehop's own cache.
pub struct Space {
    unwinder: UnwinderX86_64<&'static [u8]>,
    cache: CacheX86_64,
}

/// A module: where it is, how far it was moved, and its sections, with their addresses in the file.
#[repr(C)]
pub struct ModuleOfC {
    start: u64,
    end: u64,
    bias: u64,
    code_start: u64,
    code_end: u64,
    eh_frame_start: u64,
    eh_frame_end: u64,
    eh_frame: *const u8,
    eh_frame_hdr_start: u64,
    eh_frame_hdr_end: u64,
    eh_frame_hdr: *const u8,
}

/// Reads eight bytes: false where they cannot be read.
type Read = unsafe extern "C" fn(argument: *mut c_void, address: u64, value: *mut u64) -> bool;

/// A space without modules.
#[no_mangle]
pub extern "C" fn framehop_new() -> *mut Space {
    Box::into_raw(Box::new(Space {
        unwinder: UnwinderX86_64::new(),
        cache: CacheX86_64::new(),
    }))
}

/// Adds a module.
///
/// # Safety
///
/// `space` came from `framehop_new`; the sections are as long as the module says, and stay.
#[no_mangle]
pub unsafe extern "C" fn framehop_add(space: *mut Space, module: &ModuleOfC) {
    let section = |bytes: *const u8, start: u64, end: u64| unsafe {
        (!bytes.is_null()).then(|| slice::from_raw_parts(bytes, (end - start) as usize))
    };
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: Some(module.code_start..module.code_end),
        eh_frame_svma: Some(module.eh_frame_start..module.eh_frame_end),
        eh_frame: section(module.eh_frame, module.eh_frame_start, module.eh_frame_end),
        eh_frame_hdr_svma: Some(module.eh_frame_hdr_start..module.eh_frame_hdr_end),
        eh_frame_hdr: section(
            module.eh_frame_hdr,
            module.eh_frame_hdr_start,
            module.eh_frame_hdr_end,
        ),
        ..Default::default()
    };
    let added = Module::new(String::new(), module.start..module.end, module.bias, info);
    unsafe { &mut *space }.unwinder.add_module(added);
}

/// Walks from an interrupted pc; that is the first of the pcs, the others are return addresses.
///
/// Returns how many there are; `failed` becomes 1 where framehop gave up, 0 where it found the end.
///
/// # Safety
///
/// `space` came from `framehop_new`; there is room for `most` pcs.
#[no_mangle]
pub unsafe extern "C" fn framehop_walk(
    space: *mut Space,
    pc: u64,
    sp: u64,
    bp: u64,
    read: Read,
    argument: *mut c_void,
    pcs: *mut u64,
    most: c_int,
    failed: &mut c_int,
) -> c_int {
    let space = unsafe { &mut *space };
    let mut read_stack = |address| {
        let mut value = 0;
        if unsafe { read(argument, address, &mut value) } {
            Ok(value)
        } else {
            Err(())
        }
    };
    walk(
        space,
        pc,
        sp,
        bp,
        &mut read_stack,
        unsafe { slice::from_raw_parts_mut(pcs, most as usize) },
        failed,
    )
}

/// As `framehop_walk`, of this thread's own stack, which ends at `stack_end`.
///
/// # Safety
///
/// As of `framehop_walk`; all from `sp` up to `stack_end` can be read.
#[no_mangle]
pub unsafe extern "C" fn framehop_walk_own(
    space: *mut Space,
    pc: u64,
    sp: u64,
    bp: u64,
    stack_end: u64,
    pcs: *mut u64,
    most: c_int,
    failed: &mut c_int,
) -> c_int {
    let space = unsafe { &mut *space };
    let size = stack_end.saturating_sub(sp).saturating_sub(7);
    let mut read_stack = |address: u64| {
        if address.wrapping_sub(sp) < size {
            Ok(unsafe { (address as *const u64).read_unaligned() })
        } else {
            Err(())
        }
    };
    walk(
        space,
        pc,
        sp,
        bp,
        &mut read_stack,
        unsafe { slice::from_raw_parts_mut(pcs, most as usize) },
        failed,
    )
}

fn walk(
    space: &mut Space,
    pc: u64,
    sp: u64,
    bp: u64,
    read_stack: &mut impl FnMut(u64) -> Result<u64, ()>,
    pcs: &mut [u64],
    failed: &mut c_int,
) -> c_int {
    let registers = UnwindRegsX86_64::new(pc, sp, bp);
    let mut frames = space
        .unwinder
        .iter_frames(pc, registers, &mut space.cache, read_stack);
    *failed = 0;
    let mut count = 0;
    while count < pcs.len() {
        match frames.next() {
            Ok(Some(frame)) => {
                pcs[count] = frame.address();
                count += 1;
            }
            Ok(None) => break,
            Err(_) => {
                *failed = 1;
                break;
            }
        }
    }
    count as c_int
}
