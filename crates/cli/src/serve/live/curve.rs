//! The memory of a device over time, in a bounded number of points: the longer the time, the coarser.

#![forbid(unsafe_code)]

/// The most points.
const MAX_POINTS: usize = 1200;

/// The most bytes in each step of time.
#[derive(Debug, Default)]
pub(super) struct Curve {
    /// When each step begins, and the most bytes in it.
    points: Vec<(u64, u64)>,
    step_us: u64,
}

impl Curve {
    /// Adds what a look found.
    pub(super) fn add(&mut self, at_us: u64, bytes: u64) {
        match self.points.last_mut() {
            Some((begun, most)) if at_us < begun.saturating_add(self.step_us) => *most = bytes.max(*most),
            _ => self.points.push((at_us, bytes)),
        }
        if self.points.len() > MAX_POINTS {
            self.halve();
        }
    }

    pub(super) fn points(&self) -> &[(u64, u64)] {
        &self.points
    }

    fn halve(&mut self) {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return };
        let span_us = last.0.saturating_sub(first.0);
        self.step_us = (2 * self.step_us).max(span_us * 2 / MAX_POINTS as u64).max(1);
        let pairs =
            self.points.chunks(2).map(|pair| (pair[0].0, pair.iter().map(|of| of.1).max().unwrap_or(0)));
        self.points = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_has_no_more_points_than_an_hour_and_keeps_its_peak() {
        let mut curve = Curve::default();
        for look in 0..200_000_u64 {
            curve.add(look * 400_000, if look == 77_777 { 1_000_000 } else { look });
        }
        let points = curve.points();
        assert!((MAX_POINTS / 4..=MAX_POINTS).contains(&points.len()), "{}", points.len());
        assert_eq!(points.iter().map(|of| of.1).max(), Some(1_000_000));
        assert!(points.windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(points[0].0, 0);
    }
}
