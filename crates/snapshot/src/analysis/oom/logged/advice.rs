//! Advice on the causes in a message. The lines with PyTorch's settings come from the table of options.

use super::LoggedOom;
use crate::{
    analysis::{Bytes, oom::Verdict},
    log::Program,
};

/// `max_split_size_mb` must be above this.
const LEAST_SPLIT_MIB: u64 = 20;

impl LoggedOom<'_> {
    /// Returns what to do about a limit, given the bytes that would have been needed.
    pub(super) fn limit_advice(&self, needed_bytes: u64) -> String {
        let needed = Bytes(needed_bytes);
        match self.message.program {
            Program::CuPy => format!(
                "raise the limit: {needed} would have been enough for this request \
                 (cupy.get_default_memory_pool().set_limit(size={needed_bytes}), or \
                 CUPY_GPU_MEMORY_LIMIT)"
            ),
            Program::Mps => "PYTORCH_MPS_HIGH_WATERMARK_RATIO sets the limit; above the machine's memory, \
                             the system itself may fail"
                .to_owned(),
            _ if self.message.is_beyond_reserve => {
                "raise expandable_segments_reserve (or …_by_class): it is \
                 a fraction of the device, such as 0.5, or a size, such \
                 as 40G"
                    .to_owned()
            }
            _ if self.message.limit_bytes.is_none() => "retry the request: another process may have held \
                                                        the memory briefly. If it fails again, the system \
                                                        limits this process: WDDM on Windows, a slice of the \
                                                        GPU, a container"
                .to_owned(),
            _ => self.fraction_advice(needed_bytes),
        }
    }

    fn fraction_advice(&self, needed_bytes: u64) -> String {
        let option = "per_process_memory_fraction";
        let capacity = self.message.capacity_bytes.filter(|capacity| *capacity >= needed_bytes);
        // Rounded up, so that the limit is not below what is needed.
        let fraction = capacity.map(|capacity| {
            let percent = (u128::from(needed_bytes) * 100).div_ceil(u128::from(capacity.max(1)));
            format!("torch.cuda.set_{option}({}.{:02})", percent / 100, percent % 100)
        });
        let call = fraction.unwrap_or_else(|| format!("torch.cuda.set_{option}"));
        let also = match self.reader.takes(option) {
            true => format!(", or {option} in {}", self.reader.variable()),
            false => String::new(),
        };
        format!(
            "raise the limit: {} would have been enough for this request ({call}{also})",
            Bytes(needed_bytes)
        )
    }

    /// Returns what to do about memory that could not be used, and the setting.
    pub(super) fn unusable_advice(&self, verdict: Verdict) -> (Option<String>, Option<String>) {
        if verdict == Verdict::Elsewhere {
            let advice = "capture fewer graphs, or let graphs share a pool (torch.cuda.graph(pool=…)); \
                          empty_cache returns nothing from a pool whose graph is alive";
            return (Some(advice.to_owned()), None);
        }
        if self.is_of_pool() {
            let advice = "TF_GPU_ALLOCATOR=cuda_malloc_async uses the driver's pool, which is not divided in \
                          this way; a snapshot does not show this pool";
            return (Some(advice.to_owned()), None);
        }
        let unproved = "the message does not show whether that would have been enough";
        let expandable = "expandable_segments:True";
        if let Some(line) = self.reader.line(expandable) {
            let advice = format!(
                "try {line}, unless it is already set or this is Windows, where it has no effect: segments then \
                 grow, so free memory is in one piece; {unproved}"
            );
            return (Some(advice), Some(expandable.to_owned()));
        }
        // Comes before expandable segments: blocks of the size of the request are kept whole.
        let mib = (self.message.requested_bytes >> 20).saturating_sub(1);
        let conf = format!("max_split_size_mb:{mib}");
        let line = self.reader.line(&conf).filter(|_| mib > LEAST_SPLIT_MIB);
        match line {
            Some(line) => {
                let advice = format!(
                    "{line} keeps blocks of this size whole; {unproved}. PyTorch 2.1 and later have {expandable}"
                );
                (Some(advice), Some(conf))
            }
            None => (None, None),
        }
    }

    /// Returns what to do about other processes' memory.
    pub(super) fn occupied_advice(&self, outside_bytes: u64) -> String {
        let of_others = self.parts.others_bytes();
        if of_others > outside_bytes / 2 {
            return "end these processes (nvidia-smi lists them), or use another device \
                    (CUDA_VISIBLE_DEVICES)"
                .to_owned();
        }
        "nvidia-smi lists the device's processes; `memreel record` shows what this one holds outside its \
         allocator"
            .to_owned()
    }

    /// Returns what to do about a full device, or about a message without the figures that show the cause.
    #[must_use]
    pub fn full_advice(&self) -> String {
        let asked_bytes = self.message.requested_bytes;
        if let Some(device_bytes) = self.message.capacity_bytes.filter(|bytes| *bytes < asked_bytes) {
            return format!(
                "the request alone exceeds the device's {}: a shape or size is wrong, or allocate less at \
                 once",
                Bytes(device_bytes)
            );
        }
        match self.message.program {
            Program::Torch | Program::Mps | Program::Memreel => {
                "a smaller batch, shorter sequences or checkpointed activations need less; a snapshot shows \
                 what holds the memory, a message does not"
            }
            Program::Xla => {
                "a smaller batch, or jax.checkpoint, needs less; XLA_PYTHON_CLIENT_MEM_FRACTION=.95 makes the pool larger (it is 0.75 \
                 of the device by default)"
            }
            Program::TensorFlow => "a smaller batch needs less",
            Program::CuPy => "cupy.get_default_memory_pool().free_all_blocks() releases what is cached",
            Program::Ggml => {
                "fewer layers on the device (--n-gpu-layers), a shorter context (--ctx-size) or smaller batches (--ubatch-size) need \
                 less"
            }
        }
        .to_owned()
    }
}
