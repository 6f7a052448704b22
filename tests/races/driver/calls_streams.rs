//! Calls about streams, events, captures and graphs.

use super::{
    calls::{call, give},
    clock::Clock,
    context,
    state::{code, finish},
    streams::Event,
};

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreate(stream: *mut u64, flags: u32) -> u32 {
    call("cuStreamCreate", |driver| {
        driver.current()?;
        give(stream, driver.new_stream(flags));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreateWithPriority(stream: *mut u64, flags: u32, _priority: i32) -> u32 {
    cuStreamCreate(stream, flags)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    call("cuStreamDestroy", |driver| driver.destroy_stream(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    let mut clock = Clock::default();
    let answer = call("cuStreamSynchronize", |driver| {
        let line = driver.line(stream)?;
        if let Some(id) = driver.lines[line].capture {
            return Err(driver.invalidate(id, code::CAPTURE_UNSUPPORTED));
        }
        clock = driver.lines[line].clock.clone();
        Ok(())
    });
    finish(&clock);
    answer
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, _flags: u32) -> u32 {
    call("cuStreamWaitEvent", |driver| driver.wait(stream, event))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamIsCapturing(stream: u64, status: *mut u32) -> u32 {
    call("cuStreamIsCapturing", |driver| {
        let line = driver.line(stream)?;
        if driver.lines[line].handle == 0 && !driver.captures.is_empty() && context::capture_mode() != 2 {
            return Err(code::CAPTURE_IMPLICIT);
        }
        give(status, u32::from(driver.lines[line].capture.is_some()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: u64, mode: u32) -> u32 {
    call("cuStreamBeginCapture", |driver| {
        let line = driver.line(stream)?;
        driver.begin_capture(line, mode)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamEndCapture(stream: u64, graph: *mut u64) -> u32 {
    give(graph, 0);
    call("cuStreamEndCapture", |driver| {
        let line = driver.line(stream)?;
        let captured = driver.end_capture(line)?;
        let handle = driver.handle();
        driver.graphs.insert(handle, captured);
        give(graph, handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphInstantiateWithFlags(executable: *mut u64, graph: u64, _flags: u64) -> u32 {
    call("cuGraphInstantiate", |driver| {
        let copy = driver.graphs.get(&graph).cloned().ok_or(code::INVALID_VALUE)?;
        let handle = driver.handle();
        driver.graphs.insert(handle, copy);
        give(executable, handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(executable: u64, stream: u64) -> u32 {
    call("cuGraphLaunch", |driver| {
        let Some(graph) = driver.graphs.get(&executable).cloned() else {
            return Err(driver.misused("a graph is launched that is not alive".into()));
        };
        let line = driver.line_for_work(stream)?;
        driver.launch(&graph, line)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphUpload(_executable: u64, _stream: u64) -> u32 {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(executable: u64) -> u32 {
    cuGraphDestroy(executable)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: u64) -> u32 {
    call("cuGraphDestroy", |driver| driver.graphs.remove(&graph).map(drop).ok_or(code::INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventCreate(event: *mut u64, _flags: u32) -> u32 {
    call("cuEventCreate", |driver| {
        let context = driver.current()?;
        let handle = driver.handle();
        driver.events.insert(handle, Event { context, recorded: None, capture: None });
        give(event, handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    call("cuEventDestroy", |driver| match driver.events.remove(&event) {
        Some(_) => Ok(()),
        None => Err(driver.misused(format!("event {event:#x} is destroyed, but is not alive"))),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    call("cuEventRecord", |driver| driver.record(event, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: u64) -> u32 {
    call("cuEventQuery", |driver| {
        let Some(Event { recorded, capture, .. }) = driver.events.get(&event) else {
            return Err(driver.misused(format!("event {event:#x} is queried, but is not alive")));
        };
        let (recorded, capture) = (recorded.clone(), *capture);
        if let Some(id) = capture {
            return Err(driver.invalidate(id, code::CAPTURED_EVENT));
        }
        driver.outside_captures()?;
        let Some(clock) = recorded else { return Ok(()) };
        if clock.is_within(&driver.done) {
            return Ok(());
        }
        if driver.random(3) == 0 || driver.is_spinning(&clock) {
            return Err(code::NOT_READY);
        }
        driver.done.join(&clock);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: u64) -> u32 {
    let mut clock = Clock::default();
    let answer = call("cuEventSynchronize", |driver| {
        let Some(Event { recorded, capture, .. }) = driver.events.get(&event) else {
            return Err(driver.misused(format!("event {event:#x} is waited for, but is not alive")));
        };
        let (recorded, capture) = (recorded.clone(), *capture);
        if let Some(id) = capture {
            return Err(driver.invalidate(id, code::CAPTURED_EVENT));
        }
        clock = recorded.unwrap_or_default();
        Ok(())
    });
    finish(&clock);
    answer
}
