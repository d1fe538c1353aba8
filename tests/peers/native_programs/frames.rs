// What a Rust program knows of its own stack: libgcc's unwinder, and the names of the functions.
use std::ffi::c_void;
use std::io::Write;

extern "C" {
    fn _Unwind_Backtrace(trace: extern "C" fn(*mut c_void, *mut c_void) -> i32, argument: *mut c_void) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut i32) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, register: i32) -> usize;
    fn pause() -> i32;
    fn gettid() -> i32;
}

extern "C" fn frame(context: *mut c_void, _: *mut c_void) -> i32 {
    let mut before = 0;
    let (pc, sp) = unsafe { (_Unwind_GetIPInfo(context, &mut before), _Unwind_GetCFA(context)) };
    if pc != 0 {
        let mut line = format!("frame {} {:x} {} {:x}", unsafe { gettid() }, pc, before, sp);
        for register in [3, 6, 12, 13, 14, 15] {
            line += &format!(" {:x}", unsafe { _Unwind_GetGR(context, register) });
        }
        println!("{}", line);
    }
    0
}

#[inline(never)]
#[no_mangle]
pub fn truth() {
    unsafe { _Unwind_Backtrace(frame, std::ptr::null_mut()) };
    println!("ready");
    std::io::stdout().flush().unwrap();
    if std::env::var("ABORT").is_ok() {
        std::process::abort();
    }
    loop {
        unsafe { pause() };
    }
}

struct Guard<'a>(&'a str);
impl<'a> Drop for Guard<'a> {
    #[inline(never)]
    fn drop(&mut self) {
        if self.0 == "drop" {
            truth();
        }
    }
}

#[inline(never)]
fn deep(n: usize, mode: &str) -> usize {
    let space = std::hint::black_box([n; 20]);
    let _guard = Guard(if n == 2 { mode } else { "" });
    if n > 0 {
        return deep(n - 1, mode) + space[n % 20];
    }
    match mode {
        "drop" | "hook" => panic!("it"),
        "sort" => {
            let mut numbers = [3, 1, 2];
            numbers.sort_by(|a: &i32, b| {
                if *a > 0 {
                    truth();
                }
                a.cmp(b)
            });
            numbers[0] as usize
        }
        _ => {
            truth();
            1
        }
    }
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    if mode == "hook" {
        std::panic::set_hook(Box::new(|_| truth()));
    }
    if mode == "thread" {
        std::thread::spawn(move || deep(5, &mode)).join().unwrap();
    } else {
        let boxed: Box<dyn Fn(usize) -> usize> = Box::new(|n| deep(n, &mode));
        std::hint::black_box(boxed(4));
    }
}
