//! Registers a function with Python's `atexit`, through the C interface of the interpreter.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(super) use registration::{at_next_chance, register};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(super) fn at_next_chance(_: fn()) -> bool {
    false
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
pub(super) fn register(_: fn(), _: fn()) -> Option<bool> {
    None
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod registration {
    use std::{
        ffi::{CStr, c_char, c_int, c_void},
        mem::transmute,
        panic::{AssertUnwindSafe, catch_unwind},
        ptr,
        sync::atomic::{AtomicPtr, Ordering},
    };

    use super::super::interpreter::symbol;

    type Object = *mut c_void;
    type Called = unsafe extern "C" fn(Object, Object) -> Object;

    /// CPython's `PyMethodDef`.
    #[repr(C)]
    struct Definition {
        name: *const c_char,
        function: Called,
        flags: c_int,
        doc: *const c_char,
    }

    // SAFETY: it is never changed, and its texts are constants.
    unsafe impl Sync for Definition {}

    /// `METH_NOARGS`.
    const NO_ARGUMENTS: c_int = 4;

    static DEFINITION: Definition = Definition {
        name: c"memreel_at_exit".as_ptr(),
        function: on_exit,
        flags: NO_ARGUMENTS,
        doc: ptr::null(),
    };

    const CAPSULE: &CStr = c"memreel.at_exit";

    /// The functions of [`at_next_chance`] and [`register`].
    static AT_CHANCE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    static AT_EXIT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    static AT_DROP: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

    /// `Py_IncRef` and `None`.
    static KEEP: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static NONE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    fn set(place: &AtomicPtr<()>, function: fn()) {
        place.store(function as *mut (), Ordering::Release);
    }

    /// Calls a function; catches its panic.
    fn call(place: &AtomicPtr<()>) {
        let function = place.load(Ordering::Acquire);
        if !function.is_null() {
            // SAFETY: `set` stored a function of this type.
            let function = unsafe { transmute::<*mut (), fn()>(function) };
            let _ = catch_unwind(AssertUnwindSafe(function));
        }
    }

    unsafe extern "C" fn on_chance(_: *mut c_void) -> c_int {
        call(&AT_CHANCE);
        0
    }

    unsafe extern "C" fn on_exit(_: Object, _: Object) -> Object {
        call(&AT_EXIT);
        let keep = KEEP.load(Ordering::Acquire);
        let none = NONE.load(Ordering::Acquire);
        // SAFETY: CPython's function and object, which `registered` found before it passed this function on.
        unsafe { transmute::<Object, unsafe extern "C" fn(Object)>(keep)(none) };
        none
    }

    unsafe extern "C" fn on_drop(_: Object) {
        call(&AT_DROP);
    }

    /// Makes the interpreter's main thread call a function when it next runs Python code; returns whether it will. The
    /// interpreter must be initialised; the calling thread needs no lock.
    pub(in super::super) fn at_next_chance(function: fn()) -> bool {
        type Chance = unsafe extern "C" fn(*mut c_void) -> c_int;
        set(&AT_CHANCE, function);
        let Some(add) = symbol(c"Py_AddPendingCall") else { return false };
        // SAFETY: CPython's function of this name has this type, and may be called by any thread.
        unsafe {
            let add = transmute::<Object, unsafe extern "C" fn(Chance, *mut c_void) -> c_int>(add);
            add(on_chance, ptr::null_mut()) == 0
        }
    }

    /// Registers a function with the `atexit` of the main interpreter, and one that is called when the interpreter
    /// drops the first. Returns whether the interpreter accepted it; none if this thread runs another interpreter. The
    /// thread must have the lock.
    pub(in super::super) fn register(at_exit: fn(), at_drop: fn()) -> Option<bool> {
        set(&AT_EXIT, at_exit);
        set(&AT_DROP, at_drop);
        // SAFETY: the thread has the lock.
        unsafe { in_main_interpreter().then(|| registered().is_some()) }
    }

    /// # Safety
    ///
    /// The thread has the lock.
    unsafe fn in_main_interpreter() -> bool {
        let [now, main] = [c"PyInterpreterState_Get", c"PyInterpreterState_Main"].map(|name| {
            // SAFETY: by the contract; CPython's functions of these names have this type.
            symbol(name).map(|f| unsafe { transmute::<Object, unsafe extern "C" fn() -> Object>(f)() })
        });
        now.is_some() && now == main
    }

    /// # Safety
    ///
    /// The thread has the lock.
    unsafe fn registered() -> Option<()> {
        type Drop = unsafe extern "C" fn(Object);
        // SAFETY: by the contract; CPython's functions of these names have these types. `call` takes objects up to a
        // null. Each object that is made here is released here.
        unsafe {
            let release = transmute::<Object, Drop>(symbol(c"Py_DecRef")?);
            let clear_error = transmute::<Object, unsafe extern "C" fn()>(symbol(c"PyErr_Clear")?);
            let capsule = transmute::<
                Object,
                unsafe extern "C" fn(*const c_void, *const c_char, Option<Drop>) -> Object,
            >(symbol(c"PyCapsule_New")?);
            let function = transmute::<
                Object,
                unsafe extern "C" fn(*const Definition, Object, Object) -> Object,
            >(symbol(c"PyCFunction_NewEx")?);
            let import = transmute::<Object, unsafe extern "C" fn(*const c_char) -> Object>(symbol(
                c"PyImport_ImportModule",
            )?);
            let attribute = transmute::<Object, unsafe extern "C" fn(Object, *const c_char) -> Object>(
                symbol(c"PyObject_GetAttrString")?,
            );
            let call = transmute::<Object, unsafe extern "C" fn(Object, ...) -> Object>(symbol(
                c"PyObject_CallFunctionObjArgs",
            )?);

            KEEP.store(symbol(c"Py_IncRef")?, Ordering::Release);
            NONE.store(symbol(c"_Py_NoneStruct")?, Ordering::Release);

            let null: Object = ptr::null_mut();
            let of = |made: Object| if made.is_null() { None } else { Some(made) };
            let place = ptr::from_ref(&DEFINITION).cast();
            let owner = of(capsule(place, CAPSULE.as_ptr(), Some(on_drop)));
            let ours = owner.and_then(|owner| of(function(&raw const DEFINITION, owner, null)));
            let module = of(import(c"atexit".as_ptr()));
            let register = module.and_then(|module| of(attribute(module, c"register".as_ptr())));
            let result = match (register, ours) {
                (Some(register), Some(ours)) => of(call(register, ours, null)),
                _ => None,
            };
            if result.is_none() {
                clear_error();
            }
            for object in [result, register, module, ours, owner].into_iter().flatten() {
                release(object);
            }
            result.map(|_| ())
        }
    }
}
