//! The limit of a process, as the cause of a failed request.

use super::{
    cause::{Cause, CauseKind},
    explanation::Explanation,
};
use crate::{
    analysis::{Bytes, SettingsReader, torch::limiting_option},
    model::Value,
    words::{DeviceId, usage::PINNED},
};

impl Explanation<'_, '_> {
    pub(super) fn limited(&self) -> Option<Cause> {
        let report = &self.report;
        report.is_limited().then(|| Cause {
            kind: CauseKind::Limited,
            bytes: report.device_free_bytes,
            finding: format!(
                "the {} had {} free but refused a request for {}; this process held {}. {}",
                if self.is_of_host() { "host" } else { "device" },
                Bytes(report.device_free_bytes),
                Bytes(report.segment_bytes),
                Bytes(report.totals.reserved_bytes),
                self.limit_words(),
            ),
            advice: self.tried.needed_bytes.map(|needed| match self.is_of_host() {
                true => format!("raise the limit: {} would have been enough for this request", Bytes(needed)),
                false => self.limit_advice(needed),
            }),
            conf: None,
        })
    }

    /// Returns whether the memory is pinned memory of the host, which PyTorch's settings do not limit.
    fn is_of_host(&self) -> bool {
        let device = self.history.device();
        let usage = self.history.snapshot().usage();
        device == DeviceId::HOST || usage.iter().any(|usage| usage.device == device && usage.name == PINNED)
    }

    /// Returns the limit that would have been enough for the request, as the fraction of the device that PyTorch takes.
    fn limit_advice(&self, needed_bytes: u64) -> String {
        let report = &self.report;
        let seen_bytes = report.totals.reserved_bytes.saturating_add(report.device_free_bytes);
        let device_bytes = u128::from(report.device_total_bytes.unwrap_or(seen_bytes)).max(1);
        let thousandths = (u128::from(needed_bytes) * 1000).div_ceil(device_bytes).min(1000);
        let fraction = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        let line = self.reader.line(&format!("per_process_memory_fraction:{fraction}"));
        let also = line.map_or_else(String::new, |line| format!(" or {line}"));
        format!(
            "raise the limit: {} would have been enough for this request \
             (torch.cuda.set_per_process_memory_fraction({fraction}){also})",
            Bytes(needed_bytes),
        )
    }

    /// Returns what may have refused a request for which the device had room.
    fn limit_words(&self) -> String {
        if self.is_of_host() {
            return "Possible causes: a limit on locked memory or addresses (ulimit -l, ulimit -v), or a container's \
                    limit"
                .to_owned();
        }
        let conf = self.history.shared().records.setting("PYTORCH_CUDA_ALLOC_CONF").and_then(Value::as_text);
        let option = conf.and_then(|conf| limiting_option(conf));
        let outside = match self.reader {
            SettingsReader::Torch { is_windows: true, .. } => {
                "Windows, which keeps part of the device for others (WDDM)"
            }
            _ => "an external limit (NVIDIA MPS, a container's share of the GPU), or a failed mapping",
        };
        match option {
            Some(option) => format!("The cause is a limit on this process, {option}"),
            None => {
                format!(
                    "Possible causes: a limit on this process (torch.cuda.set_per_process_memory_fraction), {outside}"
                )
            }
        }
    }
}
