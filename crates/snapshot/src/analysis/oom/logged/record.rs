//! Suggests what to record, so that the next failure leaves more than a message.

use super::LoggedOom;
use crate::log::Program;

impl LoggedOom<'_> {
    /// Returns the lines, of Python or of a shell, that record what holds the memory.
    #[must_use]
    pub fn record_lines(&self) -> Vec<&'static str> {
        match self.message.program {
            Program::Torch => {
                let on = match self.message.releases {
                    // The argument is another in 2.0.
                    Some((_, Some(0))) => {
                        "torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=100000)  # before the model is built"
                    }
                    _ => "torch.cuda.memory._record_memory_history()  # before the model is built",
                };
                vec![on, "try: train()", "finally: torch.cuda.memory._dump_snapshot(\"oom.pickle\")"]
            }
            Program::Xla => vec!["jax.profiler.save_device_memory_profile(\"memory.prof\")"],
            Program::Memreel => vec!["reel.save_on_oom(\"oom.pickle\")"],
            Program::Mps => Vec::new(),
            Program::TensorFlow | Program::CuPy | Program::Ggml => vec!["memreel record -- PROGRAM"],
        }
    }
}
