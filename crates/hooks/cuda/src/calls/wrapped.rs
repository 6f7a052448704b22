//! Generates the wrapper of a driver function from one line.

/// Makes the exported wrappers of functions, and the `TABLE` of their entries.
///
/// `fn SYMBOL[NAME, SINCE](ARGUMENTS) = |call| BODY;` wraps the function `SYMBOL`, which `cuGetProcAddress` hands out for
/// `NAME` from version `SINCE` on (`SINCE per_thread` for the twin of a stream for each thread). `BODY` calls `call()`
/// once and returns its status. A call within another one goes to the driver and is not recorded.
macro_rules! wrapped {
    ($(fn $symbol:ident[$name:literal, $since:literal $($twin:ident)?]($($arg:ident: $type:ty),* $(,)?)
        = |$call:ident| $body:expr;)*) => {
        /// The functions that are wrapped here.
        pub(crate) const TABLE: &[&$crate::entry::Entry] = &[$(&entries::$symbol),*];

        #[allow(non_upper_case_globals, reason = "the driver's names")]
        mod entries {
            use $crate::entry::{Entry, Function};
            $(
                pub(super) static $symbol: Entry = {
                    // SAFETY: a table of C functions forgets their types; each is called with its own.
                    let wrapper = unsafe {
                        std::mem::transmute::<*const (), Function>(super::$symbol as *const ())
                    };
                    let symbol = concat!(stringify!($symbol), "\0");
                    let Ok(symbol) = std::ffi::CStr::from_bytes_with_nul(symbol.as_bytes()) else { panic!() };
                    Entry::new(symbol, $name, $since, $crate::calls::wrapped::is_twin(stringify!($($twin)?)), wrapper)
                };
            )*
        }

        $(
            /// The driver's function of this name, recorded. A thread that is cancelled in the driver unwinds through it.
            ///
            /// # Safety
            /// The duties of the driver's function.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the driver's names")]
            pub(crate) unsafe extern "C-unwind" fn $symbol($($arg: $type),*) -> $crate::types::Status {
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $crate::types::Status;
                let outermost = $crate::nested::Outermost::begin();
                let entry = &entries::$symbol;
                let next = if outermost.is_some() { entry.next() } else { entry.driver() };
                if next.is_null() {
                    return $crate::types::Status::NOT_FOUND;
                }
                // SAFETY: `next` is a function of this name, whose type the driver fixes for the name.
                let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(next) };
                // SAFETY: the caller's promise is passed on.
                let $call = || unsafe { next($($arg),*) };
                if outermost.is_none() {
                    return $call();
                }
                let status = $body;
                drop(outermost);
                if !status.is_success() {
                    $crate::failed::note(entry, status);
                }
                $crate::looks::look_if_due();
                status
            }
        )*
    };
}

pub(crate) use wrapped;

/// Whether the word after a version marks a twin.
pub(crate) const fn is_twin(word: &str) -> bool {
    !word.is_empty()
}
