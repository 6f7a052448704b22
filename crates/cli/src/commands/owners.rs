//! `memreel owners`: who holds a device's memory.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{DeviceOwners, Histories, Owners, owners},
    words::usage,
};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, name, unknown},
    options::{Devices, Input},
    text::{
        Bytes, Page, Sites, clean, labels, owner_table,
        pool_table::{has_private, print_pools},
        print_text,
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Memory belongs to the first library in the request's stack that is not part of
the driver or a runtime; if there is none, it belongs to the program. `driver:`
rows show memory that the driver allocated for itself. `now` is when the device
last reported its used bytes, and `peak` is when it reported the most. The rows
add up to what the device reports as used: `unexplained` is the difference
between that and the sum of the rows above it, and is negative if these add up
to more. It includes the memory of other processes if they are not visible.

If you give several files, each is taken to be one process of the same run. Each
device has one table for all of them; devices are matched by UUID or, without
UUIDs, by number. Managed memory is not part of the sum, because it may be on
the host. Nor is imported memory, because it is counted where it is exported.

Examples:
  memreel owners run-1234.pickle
  memreel owners run-*.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Show at most COUNT calls per stack
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    frames: usize,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let (mut opened, mut worst): (Vec<Opened>, _) = (Vec::new(), Exit::Fine);
    for path in &options.input.files {
        match opener.open(path) {
            Ok(file) => opened.push(file),
            Err(failure) => worst = worst.max(failure.of_file(&name(path)).report()?),
        }
    }
    if opened.is_empty() {
        return Ok(worst);
    }
    let snapshots: Vec<&Snapshot> = opened.iter().map(|file| &*file.snapshot).collect();
    let tables = of_device(owners(&snapshots), options.input.device)?;
    if !options.input.json && !snapshots.iter().any(|snapshot| Owners::are_known(snapshot)) {
        print_text(
            "note: the stacks have no native frames, so owners are inferred from the paths of Python \
             files; record with `memreel record` to see which libraries hold a device's memory",
            out,
        )?;
    }
    if options.input.json {
        let names: Vec<&str> = opened.iter().map(|file| &*file.name).collect();
        owner_table::print_json(&tables, &snapshots, &names, out)?;
    } else {
        owner_table::print(&tables, &snapshots, options.frames, out)?;
        print_pools_of(&tables, &opened, out)?;
    }
    Ok(worst)
}

/// How many pools are shown.
const N_POOLS: usize = 10;

/// Prints what each device has in pools, and which pinned memory is pending.
fn print_pools_of(tables: &[DeviceOwners], opened: &[Opened], out: &mut Page) -> io::Result<()> {
    let histories: Vec<Histories<'_>> =
        opened.iter().map(|opened| Histories::new(&opened.snapshot)).collect();
    for (table, part) in tables.iter().flat_map(|table| table.parts.iter().map(move |part| (table, *part))) {
        let history = histories[part].of(table.device);
        let uses = history.pool_uses(history.end());
        let (is_private, totals) = (has_private(&uses), history.totals_at(history.end()));
        let pending = totals.active_bytes.saturating_sub(totals.allocated_bytes);
        let is_waiting = table.device == DeviceId::HOST && pending > 0;
        if is_private || is_waiting {
            let file =
                if opened.len() > 1 { format!("{}, ", clean(&opened[part].name)) } else { String::new() };
            writeln!(out, "\n{file}{} at the end", labels::device(table.device))?;
        }
        if is_waiting {
            let [held, waits, idle] = [totals.allocated_bytes, pending, totals.unused_bytes()].map(Bytes);
            let text = format!("{held} is allocated, {waits} is freed and waits for events, {idle} is idle");
            print_text(text, out)?;
        }
        print_pools(&uses, N_POOLS, &Sites::new(&history, 3), true, out)?;
    }
    Ok(())
}

fn of_device(tables: Vec<DeviceOwners>, device: Devices) -> Result<Vec<DeviceOwners>, Failure> {
    let is_asked = |table: &DeviceOwners| match device {
        Devices::All => true,
        Devices::Heap => table.name == usage::HEAP,
        Devices::One(device) => table.device == device,
    };
    let known: Vec<DeviceId> = tables.iter().map(|table| table.device).collect();
    let found: Vec<DeviceOwners> = tables.into_iter().filter(is_asked).collect();
    if found.is_empty() && device != Devices::All { Err(unknown(device, &known)) } else { Ok(found) }
}
