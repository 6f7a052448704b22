//! `memreel owners`: where a device's memory is.

#![forbid(unsafe_code)]

use std::io::Write;

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{DeviceOwners, Owners, owners},
};

use crate::{
    exit::Exit,
    failure::Failure,
    fit::print_text,
    input::{Opened, list, name, open},
    options::{Devices, Input},
    owner_table,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The owner of memory is the first library in the stack of the request that is not
the driver's or a runtime's, or else the program. `driver:` rows are memory that
the driver took for itself. `now` is the last report of the device in the files,
`peak` the one with the most used bytes. The rows add up to what the device
reports as used: `unexplained` is the difference between that and the sum of the
rows above it, and is negative if these have more. Where other processes are
not visible, their memory is in it.

Several files are the processes of one run, one file each. A device has one
table over all of them: the one of its UUID, or without UUIDs of its number.
Managed memory is outside the sum, because it may be on the host, and imported
memory, because it counts where it is exported.

Example:
  memreel owners run-1234.pickle
  memreel owners run-*.pickle

Exit status: 0 answered, 2 wrong usage, 3 a file that cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Print at most this number of calls of a stack
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    frames: usize,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let (mut opened, mut worst): (Vec<Opened>, _) = (Vec::new(), Exit::Fine);
    for path in &options.input.files {
        match open(path) {
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
            "note: no stack has compiled frames, so the rows name callers of one allocator and not libraries; \
             `memreel record` tells who has a device's memory",
            out,
        )?;
    }
    if options.input.json {
        let names: Vec<&str> = opened.iter().map(|file| &*file.name).collect();
        owner_table::print_json(&tables, &snapshots, &names, out)?;
    } else {
        owner_table::print(&tables, &snapshots, options.frames, out)?;
    }
    Ok(worst)
}

fn of_device(tables: Vec<DeviceOwners>, device: Devices) -> Result<Vec<DeviceOwners>, Failure> {
    let Devices::One(number) = device else { return Ok(tables) };
    let (found, others): (Vec<DeviceOwners>, Vec<DeviceOwners>) =
        tables.into_iter().partition(|table| table.device == number.into());
    if found.is_empty() {
        let known: Vec<DeviceId> = others.iter().map(|table| table.device).collect();
        return Err(Failure::usage(format!("no device {number}; devices with memory: {}", list(&known))));
    }
    Ok(found)
}
