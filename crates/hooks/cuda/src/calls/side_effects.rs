//! Calls that make the driver take memory for itself: contexts, modules, graphs, limits.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::wrapped::wrapped;
use crate::{
    contexts,
    driver_memory::{self, around_end},
    green_contexts, looks,
    parts::Part,
    types::{Handle, Ordinal, Status},
};

/// Measures a call that may make the driver take memory.
fn around(part: Part, call: &dyn Fn() -> Status) -> Status {
    let status = driver_memory::around(part, call);
    looks::note_current();
    status
}

wrapped! {
    fn cuDevicePrimaryCtxRetain["cuDevicePrimaryCtxRetain", 7000](context: *mut Handle, device: Ordinal)
        = |call| contexts::made(device, context, &call);

    fn cuDevicePrimaryCtxRelease["cuDevicePrimaryCtxRelease", 7000](device: Ordinal)
        = |call| contexts::primary_ends(device, &call);

    fn cuDevicePrimaryCtxRelease_v2["cuDevicePrimaryCtxRelease", 11000](device: Ordinal)
        = |call| contexts::primary_ends(device, &call);

    fn cuDevicePrimaryCtxReset["cuDevicePrimaryCtxReset", 7000](device: Ordinal)
        = |call| contexts::primary_ends(device, &call);

    fn cuDevicePrimaryCtxReset_v2["cuDevicePrimaryCtxReset", 11000](device: Ordinal)
        = |call| contexts::primary_ends(device, &call);

    fn cuCtxCreate_v2["cuCtxCreate", 3020](context: *mut Handle, flags: c_uint, device: Ordinal)
        = |call| contexts::made(device, context, &call);

    fn cuCtxCreate_v3["cuCtxCreate", 11040](
        context: *mut Handle, affinity: *mut c_void, n: c_int, flags: c_uint, device: Ordinal,
    ) = |call| contexts::made(device, context, &call);

    fn cuCtxCreate_v4["cuCtxCreate", 12050](
        context: *mut Handle, parameters: *mut c_void, flags: c_uint, device: Ordinal,
    ) = |call| contexts::made(device, context, &call);

    fn cuCtxDestroy["cuCtxDestroy", 2000](context: Handle) = |call| contexts::ends(context, &call);

    fn cuCtxDestroy_v2["cuCtxDestroy", 4000](context: Handle) = |call| contexts::ends(context, &call);

    fn cuGreenCtxCreate["cuGreenCtxCreate", 12040](
        green: *mut Handle, resources: Handle, device: Ordinal, flags: c_uint,
    ) = |call| green_contexts::made(green, device, &call);

    fn cuGreenCtxDestroy["cuGreenCtxDestroy", 12040](green: Handle) = |call| green_contexts::ends(green, &call);

    fn cuCtxSetLimit["cuCtxSetLimit", 3010](limit: c_int, value: usize) = |call| around(Part::Context, &call);

    fn cuModuleLoad["cuModuleLoad", 2000](module: *mut Handle, path: *const c_char)
        = |call| around(Part::Module, &call);

    fn cuModuleLoadData["cuModuleLoadData", 2000](module: *mut Handle, image: *const c_void)
        = |call| around(Part::Module, &call);

    fn cuModuleLoadDataEx["cuModuleLoadDataEx", 2010](
        module: *mut Handle, image: *const c_void, n: c_uint, options: *mut c_int, values: *mut *mut c_void,
    ) = |call| around(Part::Module, &call);

    fn cuModuleLoadFatBinary["cuModuleLoadFatBinary", 2000](module: *mut Handle, image: *const c_void)
        = |call| around(Part::Module, &call);

    fn cuModuleUnload["cuModuleUnload", 2000](module: Handle) = |call| around_end(Part::Module, &call);

    fn cuLibraryLoadData["cuLibraryLoadData", 12000](
        library: *mut Handle, code: *const c_void, jit_options: *mut c_int, jit_values: *mut *mut c_void,
        n_jit: c_uint, options: *mut c_int, values: *mut *mut c_void, n: c_uint,
    ) = |call| around(Part::Module, &call);

    fn cuLibraryLoadFromFile["cuLibraryLoadFromFile", 12000](
        library: *mut Handle, path: *const c_char, jit_options: *mut c_int, jit_values: *mut *mut c_void,
        n_jit: c_uint, options: *mut c_int, values: *mut *mut c_void, n: c_uint,
    ) = |call| around(Part::Module, &call);

    fn cuLibraryUnload["cuLibraryUnload", 12000](library: Handle) = |call| around_end(Part::Module, &call);

    fn cuGraphInstantiate["cuGraphInstantiate", 10000](
        made: *mut Handle, graph: Handle, node: *mut Handle, log: *mut c_char, log_bytes: usize,
    ) = |call| around(Part::Graph, &call);

    fn cuGraphInstantiate_v2["cuGraphInstantiate", 11000](
        made: *mut Handle, graph: Handle, node: *mut Handle, log: *mut c_char, log_bytes: usize,
    ) = |call| around(Part::Graph, &call);

    fn cuGraphInstantiateWithFlags["cuGraphInstantiateWithFlags", 11040](
        made: *mut Handle, graph: Handle, flags: u64,
    ) = |call| around(Part::Graph, &call);

    fn cuGraphInstantiateWithParams["cuGraphInstantiateWithParams", 12000](
        made: *mut Handle, graph: Handle, parameters: *mut c_void,
    ) = |call| around(Part::Graph, &call);

    fn cuGraphInstantiateWithParams_ptsz["cuGraphInstantiateWithParams", 12000 per_thread](
        made: *mut Handle, graph: Handle, parameters: *mut c_void,
    ) = |call| around(Part::Graph, &call);

    fn cuGraphExecDestroy["cuGraphExecDestroy", 10000](made: Handle) = |call| around_end(Part::Graph, &call);

    fn cuDeviceGraphMemTrim["cuDeviceGraphMemTrim", 11040](device: Ordinal)
        = |call| around_end(Part::Graph, &call);
}
