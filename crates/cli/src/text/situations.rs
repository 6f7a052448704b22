//! What the program prints without arguments: typical situations, and the command for each.

#![forbid(unsafe_code)]

/// The situations of the README.
pub(crate) const SITUATIONS: &str = "\
memreel shows what holds the memory of a GPU or a process, and why a request failed.

CUDA out of memory in PyTorch: save a snapshot in the `finally:` of a `try:`
  torch.cuda.memory._record_memory_history()                  in Python, at the start
  torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")         in the finally:
  memreel oom snapshot.pickle

A server's memory grows
  memreel record --signal USR2 -- ./server                    --heap for its heap
  memreel leaks FILE                                          for each FILE that it wrote

A job must stay below a limit
  memreel gate --max-peak 10GiB snapshot.pickle

A run with many ranks
  memreel ranks snapshots/                                    a folder with a file for each rank

`memreel FILE` describes any snapshot, and `memreel --help` lists all commands.
";
