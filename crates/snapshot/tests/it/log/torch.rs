//! Messages of PyTorch in the form of each release, with chosen figures.

/// The figures of a message.
#[derive(Clone, Default)]
pub(super) struct Figures {
    pub(super) device: u16,
    pub(super) asked: u64,
    pub(super) capacity: u64,
    pub(super) free: u64,
    pub(super) process: Option<u64>,
    pub(super) others: Vec<(u64, u64)>,
    pub(super) allowed: Option<u64>,
    pub(super) allocated: u64,
    pub(super) private: u64,
    pub(super) unallocated: u64,
}

/// A size as PyTorch prints it: two decimals, and 1024 of a unit are not one of the next.
#[allow(clippy::cast_precision_loss)]
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes > *unit) {
        Some((name, unit)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The release 2.x whose form a message has.
pub(super) fn message(release: u8, figures: &Figures) -> String {
    let error = if release < 5 { "torch.cuda.OutOfMemoryError" } else { "torch.OutOfMemoryError" };
    format!("{error}: {}", text(release, "CUDA", figures))
}

/// The message without the name of the error.
pub(super) fn text(release: u8, accelerator: &str, figures: &Figures) -> String {
    let Figures { device, asked, capacity, free, allocated, private, unallocated, .. } = *figures;
    let allowed = figures.allowed.map_or_else(String::new, |allowed| format!("{} allowed; ", size(allowed)));
    let begin = format!("{accelerator} out of memory. Tried to allocate {}", size(asked));
    if release == 0 {
        return format!(
            "{begin} (GPU {device}; {} total capacity; {} already allocated; {} free; {allowed}{} reserved in total by \
             PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See \
             documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            size(capacity),
            size(allocated),
            size(free),
            size(allocated + unallocated),
        );
    }
    let capacity_word = if release == 1 { "capacty" } else { "capacity" };
    let mut processes = String::new();
    for (pid, bytes) in &figures.others {
        processes += &format!("Process {pid} has {} memory in use. ", size(*bytes));
    }
    if let Some(process) = figures.process {
        processes +=
            &format!("Including non-PyTorch memory, this process has {} memory in use. ", size(process));
    }
    let pools = match private {
        0 => String::new(),
        bytes => format!(", with {} allocated in private pools (e.g., CUDA Graphs)", size(bytes)),
    };
    let hint = match release {
        1 => {
            "max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
        }
        9 | 10 => {
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  \
             (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        }
        11.. => {
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
             Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
        }
        _ => {
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
             Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        }
    };
    format!(
        "{begin}. GPU {device} has a total {capacity_word} of {} of which {} is free. {processes}{allowed}Of the allocated memory \
         {} is allocated by PyTorch{pools}, and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory is \
         large try setting {hint}",
        size(capacity),
        size(free),
        size(allocated),
        size(unallocated),
    )
}
