//! Captures on stacks that a program made itself, some of which are unmapped before the next capture.
//!
//! Without a limit on its size, the main thread's stack is reported to begin at
//! the end of the heap, and coroutines' stacks would be inside it. So the test runs
//! itself again under `ulimit -s unlimited`. It has no harness, which would
//! run it on another thread.
#![allow(missing_docs)]

fn main() {
    #[cfg(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    on_linux::main();
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod on_linux {

    use std::{arch::global_asm, env, ffi::c_void, hint::black_box, process::Command, ptr};

    use memreel::{
        DeviceId,
        integrate::{StackId, StackMethod, Track, stack_method},
        recorder::{Recorder, Recording},
    };

    const CHILD: &str = "MEMREEL_COROUTINE_CHILD";
    const STACK_BYTES: usize = 256 << 10;

    // Calls `call(data)` on the stack that ends at `top`, whose outermost frame it is.
    #[cfg(target_arch = "x86_64")]
    global_asm!(
        ".globl memreel_on_stack",
        ".hidden memreel_on_stack",
        ".type memreel_on_stack, @function",
        "memreel_on_stack:",
        ".cfi_startproc",
        ".cfi_undefined rip",
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
        ".cfi_endproc",
        ".size memreel_on_stack, . - memreel_on_stack",
    );

    #[cfg(target_arch = "aarch64")]
    global_asm!(
        ".globl memreel_on_stack",
        ".hidden memreel_on_stack",
        ".type memreel_on_stack, @function",
        "memreel_on_stack:",
        ".cfi_startproc",
        ".cfi_undefined x30",
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
        ".cfi_endproc",
        ".size memreel_on_stack, . - memreel_on_stack",
    );

    unsafe extern "C" {
        fn memreel_on_stack(top: *mut c_void, call: unsafe extern "C" fn(*mut c_void), data: *mut c_void);
    }

    /// A stack of a coroutine.
    struct Stack(*mut c_void);

    impl Stack {
        /// The `n`-th stack: between the heap and the main thread's stack, and the higher the greater `n` is.
        fn new(n: usize) -> Stack {
            let wish = ptr::without_provenance_mut(0x6100_0000_0000 + (n << 20));
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
            // SAFETY: new pages; no mapping is replaced.
            let pages = unsafe { libc::mmap(wish, STACK_BYTES, protection, flags, -1, 0) };
            assert_eq!(pages, wish);
            Stack(pages)
        }

        fn capture(&self, track: &Track) -> StackId {
            struct Data<'a>(&'a Track, StackId);
            unsafe extern "C" fn call(data: *mut c_void) {
                // SAFETY: made below, and not used meanwhile.
                let data = unsafe { &mut *data.cast::<Data<'_>>() };
                data.1 = data.0.stack_of_alloc(512);
                black_box(());
            }
            let mut data = Data(track, StackId::NONE);
            // SAFETY: `call` takes this data, and the stack belongs to this coroutine alone.
            unsafe { memreel_on_stack(self.0.byte_add(STACK_BYTES), call, ptr::from_mut(&mut data).cast()) };
            data.1
        }
    }

    impl Drop for Stack {
        fn drop(&mut self) {
            // SAFETY: mapped by `new`, and nothing runs on it.
            unsafe { libc::munmap(self.0, STACK_BYTES) };
        }
    }

    pub(super) fn main() {
        if env::var_os(CHILD).is_some() {
            return in_the_child();
        }
        for (limit, method) in ["8192", "unlimited"].into_iter().flat_map(|limit| {
            [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules].map(|method| (limit, method))
        }) {
            let script = format!("ulimit -s {limit} && exec \"$0\"");
            let child = Command::new("sh")
                .args(["-c", &script])
                .arg(env::current_exe().unwrap())
                .env(CHILD, "1")
                .env("MEMREEL_STACK_METHOD", method.name())
                .output()
                .unwrap();
            let text = format!(
                "{}{}",
                String::from_utf8_lossy(&child.stdout),
                String::from_utf8_lossy(&child.stderr)
            );
            assert!(child.status.success(), "{limit} {method:?} {:?}: {text}", child.status);
            assert!(text.contains("captures on coroutines"), "{text}");
        }
        println!("test a_coroutines_stack_may_go_between_two_captures ... ok");
    }

    fn in_the_child() {
        // SAFETY: both only return a number.
        let is_main = unsafe { libc::gettid() == libc::getpid() };
        assert!(is_main, "this must be the main thread");
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        let track = recorder.track(DeviceId(0));
        assert!(track.stack_of_alloc(512).is_some());
        for _ in 0..3 {
            let [low, high] = [1, 2].map(Stack::new);
            assert!(high.capture(&track).is_some());
            assert!(track.stack_of_alloc(512).is_some(), "on the main stack again");
            assert!(high.capture(&track).is_some());
            drop(high);
            // Lower, so that the frames of the last capture would be a caller's.
            assert!(low.capture(&track).is_some());
            drop(low);
            assert!(track.stack_of_alloc(512).is_some());
        }
        println!("captures on coroutines by {}", stack_method().name());
    }
}
