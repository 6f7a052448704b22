//! The bytes of a note. Numbers are little-endian; a text is its length in 4 bytes and its bytes, a list its length and its
//! elements.
#![forbid(unsafe_code)]

use memreel_snapshot::words::{AreaKind, DeviceId, GroupReport, ResidentArea, ResidentReport, UsageReport};

#[derive(Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn kind(&mut self, kind: u32) -> &mut Out {
        self.u32(kind)
    }

    pub(super) fn u32(&mut self, number: u32) -> &mut Out {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn u64(&mut self, number: u64) -> &mut Out {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn i64(&mut self, number: i64) -> &mut Out {
        self.u64(number.cast_unsigned())
    }

    pub(super) fn text(&mut self, text: &[u8]) -> &mut Out {
        self.u32(text.len() as u32);
        self.0.extend(text);
        self
    }

    pub(super) fn usage(&mut self, ticks: u64, report: &UsageReport) {
        let others = report.other_processes_bytes;
        self.u64(ticks).u64(report.used_bytes).u64(report.total_bytes);
        self.u32(others.is_some().into()).u64(others.unwrap_or(0));
        self.u64(report.no_process_bytes).u64(report.pool_slack_bytes).u64(report.page_rounding_bytes);
        self.u64(report.reserved_address_bytes);
    }

    pub(super) fn resident(&mut self, report: &ResidentReport) {
        let ResidentReport { device, resident_bytes, peak_bytes, swapped_bytes, machine_bytes, .. } = report;
        self.i64(device.0).u64(*resident_bytes).u64(*peak_bytes).u64(*swapped_bytes).u64(*machine_bytes);
        self.u64(report.recorder_bytes).u32(report.group.is_some().into());
        if let Some(group) = &report.group {
            self.u64(group.used_bytes).maybe(group.peak_bytes).maybe(group.limit_bytes);
            self.u64(group.cache_bytes).u64(group.shared_bytes).u64(group.kernel_bytes).u64(group.n_killed);
        }
        self.u32(report.areas.len() as u32);
        for area in &report.areas {
            let kind = AreaKind::ALL.iter().position(|kind| *kind == area.kind).unwrap_or(0);
            self.u32(kind as u32).text(area.name.as_bytes()).u64(area.range.start).u64(area.range.end);
            self.u64(area.resident_bytes).u64(area.shared_out_bytes).u64(area.huge_bytes);
            self.u32(area.holes.len() as u32);
            area.holes.iter().for_each(|hole| _ = self.u64(hole.start).u64(hole.end));
        }
    }

    pub(super) fn maybe(&mut self, number: Option<u64>) -> &mut Out {
        self.u32(number.is_some().into()).u64(number.unwrap_or(0))
    }
}

pub(super) struct In<'a>(pub(super) &'a [u8]);

impl<'a> In<'a> {
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }

    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let n_bytes = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(n_bytes)?;
        self.0 = rest;
        Some(text)
    }

    pub(super) fn string(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.text()?).into_owned())
    }

    pub(super) fn usage(&mut self) -> Option<(u64, UsageReport)> {
        let (ticks, used_bytes, total_bytes) = (self.u64()?, self.u64()?, self.u64()?);
        let (is_visible, others) = (self.u32()? != 0, self.u64()?);
        let report = UsageReport {
            used_bytes,
            total_bytes,
            other_processes_bytes: is_visible.then_some(others),
            no_process_bytes: self.u64()?,
            pool_slack_bytes: self.u64()?,
            page_rounding_bytes: self.u64()?,
            reserved_address_bytes: self.u64()?,
        };
        Some((ticks, report))
    }

    pub(super) fn resident(&mut self) -> Option<ResidentReport> {
        let (device, resident_bytes, peak_bytes) = (DeviceId(self.i64()?), self.u64()?, self.u64()?);
        let (swapped_bytes, machine_bytes, recorder_bytes) = (self.u64()?, self.u64()?, self.u64()?);
        let group = if self.u32()? != 0 { Some(self.group()?) } else { None };
        let areas = self.list(|of| {
            let kind = *AreaKind::ALL.get(of.u32()? as usize)?;
            let (name, range) = (of.string()?, of.u64()?..of.u64()?);
            let (resident_bytes, shared_out_bytes, huge_bytes) = (of.u64()?, of.u64()?, of.u64()?);
            let holes = of.list(|of| Some(of.u64()?..of.u64()?))?;
            Some(ResidentArea { kind, name, range, resident_bytes, shared_out_bytes, huge_bytes, holes })
        })?;
        Some(ResidentReport {
            device,
            time_us: 0,
            resident_bytes,
            peak_bytes,
            swapped_bytes,
            machine_bytes,
            recorder_bytes,
            group,
            areas,
        })
    }

    pub(super) fn group(&mut self) -> Option<GroupReport> {
        Some(GroupReport {
            used_bytes: self.u64()?,
            peak_bytes: self.maybe()?,
            limit_bytes: self.maybe()?,
            cache_bytes: self.u64()?,
            shared_bytes: self.u64()?,
            kernel_bytes: self.u64()?,
            n_killed: self.u64()?,
        })
    }

    pub(super) fn maybe(&mut self) -> Option<Option<u64>> {
        let (is_there, number) = (self.u32()? != 0, self.u64()?);
        Some(is_there.then_some(number))
    }

    pub(super) fn list<T>(&mut self, mut element: impl FnMut(&mut In<'a>) -> Option<T>) -> Option<Vec<T>> {
        let n = self.u32()? as usize;
        // An element takes at least one byte, so a wrong length reserves no memory.
        if n > self.0.len() {
            return None;
        }
        let mut all = Vec::new();
        for _ in 0..n {
            all.push(element(self)?);
        }
        Some(all)
    }
}
