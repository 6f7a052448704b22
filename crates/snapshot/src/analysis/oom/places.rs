//! Describes where the memory is that a failed request could not use, and what makes it usable.

use std::cmp::Reverse;

use super::{Cause, CauseKind, Verdict, elsewhere::Elsewhere, explanation::Explanation};
use crate::{
    analysis::{Bytes, PoolOf, SiteFinding, reserved::pool_name},
    words::{PoolId, PoolKind, torch::pool_kind},
};

impl Explanation<'_, '_> {
    /// Returns where memory was free that the request could not use.
    pub(super) fn elsewhere_finding(&self) -> String {
        let idle = self.elsewhere.idle.first();
        let streams = idle.map(|idle| (idle.free_bytes, idle.finding(&self.site(&idle.site))));
        let (all, elsewhere) = (self.report.all_free_bytes(), self.report.free_elsewhere_bytes);
        match streams {
            // The whole text is this.
            Some((bytes, finding)) if bytes >= all / 20 * 19 => finding,
            streams => {
                let streams = streams.map_or_else(String::new, |(_, finding)| format!("; {finding}"));
                let device = match self.report.usable_device_bytes() {
                    0 => String::new(),
                    bytes => format!("; the device has {} free", Bytes(bytes)),
                };
                match &self.places()[..] {
                    [place] => format!("{place} is free, which this request cannot use{device}{streams}"),
                    places => format!(
                        "{} is free, but where this request cannot use it: {}{device}{streams}",
                        Bytes(elsewhere),
                        places.join(", ")
                    ),
                }
            }
        }
    }

    /// Returns the places of free memory with their bytes, largest first.
    fn places(&self) -> Vec<String> {
        let Elsewhere { on_streams, n_streams, of_other_kind, in_pools, .. } = &self.elsewhere;
        let mut places: Vec<(u64, String)> = Vec::new();
        if *on_streams > 0 {
            let streams = if *n_streams == 1 {
                "1 other stream".to_owned()
            } else {
                format!("{n_streams} other streams")
            };
            places.push((*on_streams, format!("{} on {streams}", Bytes(*on_streams))));
        }
        if *of_other_kind > 0 {
            let kind = self.other_kind();
            places
                .push((*of_other_kind, format!("{} in segments for {kind} requests", Bytes(*of_other_kind))));
        }
        if let [(pool, bytes), others @ ..] = &in_pools[..] {
            let rest = others.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
            let more = match others.len() {
                0 => String::new(),
                n => format!(" and {} in {n} more pools", Bytes(rest)),
            };
            places.push((
                bytes.saturating_add(rest),
                format!("{} in {}{more}", Bytes(*bytes), pool_name(*pool)),
            ));
        }
        places.sort_by_key(|(bytes, _)| Reverse(*bytes));
        places.into_iter().map(|(_, text)| text).collect()
    }

    fn other_kind(&self) -> &'static str {
        match pool_kind(self.report.requested_bytes) {
            PoolKind::Small => "large",
            PoolKind::Large => "small",
        }
    }

    /// Adds what helps with memory that is free elsewhere: before the settings, which do not change how a program uses
    /// streams and pools.
    pub(super) fn add_places(&self, causes: &mut Vec<Cause>) {
        let elsewhere = CauseKind::Unusable(Verdict::Elsewhere);
        if let Some(cause) = causes.iter_mut().find(|cause| matches!(cause.kind, CauseKind::Unusable(_))) {
            let is_here = cause.kind != elsewhere && self.elsewhere.empty_in_own_pool == 0;
            if let Some(advice) = self.elsewhere_advice().filter(|_| !is_here) {
                let setting = cause.advice.take().map_or_else(String::new, |setting| format!("; {setting}"));
                cause.advice = Some(format!("{advice}{setting}"));
            }
        } else if let Some(idle) = self.elsewhere.idle.first() {
            let finding = idle.finding(&self.site(&idle.site));
            causes.push(Cause {
                kind: elsewhere,
                bytes: idle.free_bytes,
                finding,
                advice: idle.advice().map(str::to_owned),
                conf: None,
            });
        }
    }

    fn elsewhere_advice(&self) -> Option<String> {
        let Elsewhere { on_streams, in_pools, idle, empty_in_own_pool, .. } = &self.elsewhere;
        let (own, most) = (self.report.pool.filter(|_| *empty_in_own_pool > 0), in_pools.first());
        match own.or_else(|| most.filter(|(_, bytes)| bytes > on_streams).map(|(pool, _)| *pool)) {
            Some(PoolId::DEFAULT) => Some(
                "the default pool's cache is not released within torch.cuda.use_mem_pool or a capture: call \
                 torch.cuda.empty_cache() before it"
                    .to_owned(),
            ),
            Some(pool) => Some(format!("{NOT_GIVEN_BACK}; {}", PoolOf::id(pool).returned_by())),
            None => idle.first().and_then(SiteFinding::advice).map(str::to_owned),
        }
    }
}

const NOT_GIVEN_BACK: &str = "PyTorch never releases a live private pool's empty segments to satisfy a \
                              request, not even one that would otherwise fail";
