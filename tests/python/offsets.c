/* Prints where the fields of CPython's objects are: the constants of src/python/layout.rs and published.rs.
 *
 *   cc -w [-DPy_GIL_DISABLED=1] -I INCLUDE/python3.X -I INCLUDE/python3.X/internal offsets.c && ./a.out
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#else
#include <frameobject.h>
#include <code.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#include <internal/pycore_interpframe.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_debug_offsets.h>
#elif PY_VERSION_HEX >= 0x030d0000
#include <internal/pycore_runtime.h>
#endif
#define P(t, f) printf("  %-28s %zu\n", #t "." #f, offsetof(t, f))
int main(void) {
  printf("== %s ft=%d\n", PY_VERSION,
#ifdef Py_GIL_DISABLED
  1
#else
  0
#endif
  );
#if PY_VERSION_HEX < 0x030b0000
  P(PyThreadState, frame); P(PyFrameObject, f_back); P(PyFrameObject, f_code); P(PyFrameObject, f_lasti);
#else
#if PY_VERSION_HEX >= 0x030d0000
  P(PyThreadState, current_frame); P(_PyInterpreterFrame, f_executable);  P(_PyInterpreterFrame, instr_ptr);
#else
  P(PyThreadState, cframe); P(_PyCFrame, current_frame); P(_PyInterpreterFrame, f_code); P(_PyInterpreterFrame, prev_instr);
#endif
  P(_PyInterpreterFrame, previous); P(_PyInterpreterFrame, owner); P(PyCodeObject, co_qualname); P(PyCodeObject, co_code_adaptive);
#endif
  P(PyCodeObject, co_name); P(PyCodeObject, co_filename); P(PyCodeObject, co_firstlineno);
#if PY_VERSION_HEX < 0x030a0000
  P(PyCodeObject, co_lnotab);
#else
  P(PyCodeObject, co_linetable);
#endif
#if PY_VERSION_HEX >= 0x030c0000
  P(PyCodeObject, co_version);
#endif
  printf("  ascii %zu compact %zu\n", sizeof(PyASCIIObject), sizeof(PyCompactUnicodeObject));
  P(PyASCIIObject, length); P(PyASCIIObject, state); P(PyVarObject, ob_size); P(PyBytesObject, ob_sval); P(PyObject, ob_type);
  PyASCIIObject a; 
  memset(&a, 0, sizeof a); a.state.kind = 7; printf("  kind %08x", *(unsigned*)&a.state);
  memset(&a, 0, sizeof a); a.state.compact = 1; printf("  compact %08x", *(unsigned*)&a.state);
  memset(&a, 0, sizeof a); a.state.ascii = 1; printf("  ascii %08x\n", *(unsigned*)&a.state);
#if PY_VERSION_HEX >= 0x030d0000
#define D(f) printf("    dbg %-40s %zu\n", #f, offsetof(_Py_DebugOffsets, f))
  D(version); D(free_threaded); D(runtime_state); D(interpreter_state); D(thread_state); D(thread_state.current_frame); D(interpreter_frame); D(interpreter_frame.size); D(interpreter_frame.previous); D(interpreter_frame.executable); D(interpreter_frame.instr_ptr); D(interpreter_frame.owner);
  D(code_object); D(code_object.filename); D(code_object.name); D(code_object.qualname); D(code_object.linetable); D(code_object.firstlineno); D(code_object.co_code_adaptive);
  D(pyobject.ob_type); D(bytes_object); D(unicode_object); D(unicode_object.state); D(unicode_object.length); D(unicode_object.asciiobject_size);
#if PY_VERSION_HEX >= 0x030e0000
  D(interpreter_frame.tlbc_index); D(code_object.co_tlbc);
#endif
#endif
  return 0; }
