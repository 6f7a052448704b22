//! Checks Python frames against those that the interpreter itself reports.

use super::source::PythonFrames;
use memreel_snapshot::words::{Error, Result};

impl PythonFrames {
    /// Compares this thread's frames, as memreel reads them, with those that the interpreter reports, and returns how
    /// many there are. If they differ, no Python frames are captured from now on.
    ///
    /// Call it where the thread has the interpreter's lock and was called from Python code: in a function of an
    /// extension module, or in one that `ctypes.PyDLL` calls. It creates Python objects, so it must not be called
    /// within an allocator.
    ///
    /// # Errors
    /// If there are no Python frames, with the reason ([`PythonFrames::version`]); if the thread does not have the lock;
    /// and if a frame differs.
    pub fn check(&self) -> Result<usize> {
        let version = self.version().map_err(Error::misuse)?.to_owned();
        let Ok(interpreter) = self.look() else {
            return Err(Error::misuse("no Python interpreter is loaded"));
        };
        if !interpreter.is_attached() {
            return Err(Error::misuse(
                "the thread does not hold the interpreter's lock; acquire it before you check Python frames",
            ));
        }
        super::ending::register();
        let checked = compared(self, interpreter);
        if checked.is_err() {
            self.stop();
        }
        checked.map_err(|why| Error::misuse(format!("Python frames of CPython {version} are wrong: {why}")))
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
fn compared(_: &PythonFrames, _: &super::interpreter::Interpreter) -> std::result::Result<usize, String> {
    Err("Python frames are read on 64-bit Linux only".into())
}

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
use reported::compared;

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
mod reported {
    //! Reads the frames that the interpreter reports, through its C interface.

    use std::{
        ffi::{CStr, c_char, c_int, c_void},
        mem::transmute,
        ptr,
    };

    use super::super::{
        interpreter::{Interpreter, symbol},
        source::PythonFrames,
    };
    use crate::stack::{FrameSource, SourceFrame};

    type Object = *mut c_void;

    /// The functions used, found by name.
    struct Functions {
        /// Returns the innermost frame, which the interpreter keeps alive.
        innermost: unsafe extern "C" fn() -> Object,
        back: unsafe extern "C" fn(Object) -> Object,
        code: unsafe extern "C" fn(Object) -> Object,
        line: unsafe extern "C" fn(Object) -> c_int,
        attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
        /// Returns the text of an object, which keeps it alive.
        text: unsafe extern "C" fn(Object, *mut isize) -> *const c_char,
        clear_error: unsafe extern "C" fn(),
        keep: unsafe extern "C" fn(Object),
        release: unsafe extern "C" fn(Object),
    }

    impl Functions {
        fn find() -> Result<Functions, String> {
            let find =
                |name: &CStr| symbol(name).ok_or_else(|| format!("it exports no {}", name.to_string_lossy()));
            // SAFETY: CPython's functions of these names have these types.
            unsafe {
                Ok(Functions {
                    innermost: transmute::<Object, unsafe extern "C" fn() -> Object>(find(
                        c"PyEval_GetFrame",
                    )?),
                    back: transmute::<Object, unsafe extern "C" fn(Object) -> Object>(find(
                        c"PyFrame_GetBack",
                    )?),
                    code: transmute::<Object, unsafe extern "C" fn(Object) -> Object>(find(
                        c"PyFrame_GetCode",
                    )?),
                    line: transmute::<Object, unsafe extern "C" fn(Object) -> c_int>(find(
                        c"PyFrame_GetLineNumber",
                    )?),
                    attribute: transmute::<Object, unsafe extern "C" fn(Object, *const c_char) -> Object>(
                        find(c"PyObject_GetAttrString")?,
                    ),
                    text: transmute::<Object, unsafe extern "C" fn(Object, *mut isize) -> *const c_char>(
                        find(c"PyUnicode_AsUTF8AndSize")?,
                    ),
                    clear_error: transmute::<Object, unsafe extern "C" fn()>(find(c"PyErr_Clear")?),
                    keep: transmute::<Object, unsafe extern "C" fn(Object)>(find(c"Py_IncRef")?),
                    release: transmute::<Object, unsafe extern "C" fn(Object)>(find(c"Py_DecRef")?),
                })
            }
        }

        /// Returns the text of an attribute; none if it is not UTF-8.
        ///
        /// # Safety
        ///
        /// The object is alive, and the thread has the lock.
        unsafe fn text_of(&self, object: Object, name: &CStr) -> Option<String> {
            // SAFETY: by the contract; the text is copied before its object is released.
            unsafe {
                let attribute = (self.attribute)(object, name.as_ptr());
                let mut n = 0;
                let text = if attribute.is_null() { ptr::null() } else { (self.text)(attribute, &raw mut n) };
                let copied = (!text.is_null()).then(|| {
                    let bytes = std::slice::from_raw_parts(text.cast::<u8>(), n.unsigned_abs());
                    String::from_utf8_lossy(bytes).into_owned()
                });
                if text.is_null() {
                    (self.clear_error)();
                }
                (self.release)(attribute);
                copied
            }
        }

        /// Returns this thread's frames, innermost first, at most `max`.
        ///
        /// # Safety
        ///
        /// The thread has the lock.
        unsafe fn frames(&self, max: usize) -> Vec<SourceFrame> {
            let mut all = Vec::new();
            // SAFETY: the innermost frame is kept as long as it is looked at; the others are new references.
            unsafe {
                let mut frame = (self.innermost)();
                (self.keep)(frame);
                while !frame.is_null() {
                    if all.len() < max {
                        let code = (self.code)(frame);
                        let text = |name| self.text_of(code, name).unwrap_or_else(|| "?".into());
                        all.push(SourceFrame {
                            name: text(c"co_name"),
                            filename: text(c"co_filename"),
                            line: u32::try_from((self.line)(frame)).unwrap_or(0),
                        });
                        (self.release)(code);
                    }
                    let back = (self.back)(frame);
                    (self.release)(frame);
                    frame = back;
                }
            }
            all
        }
    }

    /// Returns how many frames are equal, or an error with the first difference.
    pub(super) fn compared(source: &PythonFrames, interpreter: &Interpreter) -> Result<usize, String> {
        let functions = Functions::find()?;
        let mut words = [0; 64];
        // SAFETY: the caller has looked whether this thread has the lock.
        let reported = unsafe { functions.frames(words.len()) };
        let n = source.words_with(interpreter, &mut words);
        let read: Vec<SourceFrame> = words[..n].iter().flat_map(|word| source.name(*word)).collect();
        if read.len() != reported.len() {
            return Err(format!(
                "{} frames were read, and the interpreter has {}",
                read.len(),
                reported.len()
            ));
        }
        let differs = |(read, reported): &(&SourceFrame, &SourceFrame)| {
            read != reported && reported.name != "?" && reported.filename != "?"
        };
        match read.iter().zip(&reported).find(differs) {
            Some((read, reported)) => Err(format!("{read:?} was read, and the interpreter has {reported:?}")),
            None if n == 0 => Err("no Python code has called, so there is nothing to compare".into()),
            None => Ok(n),
        }
    }
}
