//! A timeline as characters, and as SVG.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::Point;

use super::{bytes::Bytes, escape_xml};

/// Returns the figures of a point, from the lowest to the highest.
fn figures(point: &Point) -> [u64; 3] {
    [point.highest.allocated_bytes, point.highest.active_bytes, point.highest.reserved_bytes]
}

fn highest(points: &[Point]) -> u64 {
    points.iter().flat_map(figures).max().unwrap_or(0).max(1)
}

/// The columns of the scale, left of a plot of characters.
pub(crate) const SCALE: usize = 13;

/// Prints one column a point: allocated, above it bytes whose free waits for a stream, above them reserved.
pub(crate) fn characters(points: &[Point], height: usize, out: &mut impl Write) -> io::Result<()> {
    let most = highest(points);
    for row in (0..height).rev() {
        // A row is filled if the figure reaches its middle.
        let least = (u128::from(most) * (2 * row as u128 + 1)).div_ceil(2 * height as u128);
        let character = |point: &Point| {
            let [allocated, active, reserved] = figures(point).map(u128::from);
            match least {
                least if allocated >= least => '█',
                least if active >= least => '▓',
                least if reserved >= least => '░',
                _ => ' ',
            }
        };
        let label = match row {
            row if row + 1 == height => Bytes(most).to_string(),
            0 => "0 B".to_owned(),
            row if row == height / 2 => Bytes(most / 2).to_string(),
            _ => String::new(),
        };
        let line: String = points.iter().map(character).collect();
        writeln!(out, "{label:>11} ┤{}", line.trim_end())?;
    }
    Ok(())
}

/// The points of a picture: about as many as a screen has pixels.
pub(crate) const SVG_POINTS: usize = 1200;

const WIDTH: u64 = 1200;
const HEIGHT: u64 = 360;
const LEFT: u64 = 100;
const TOP: u64 = 40;

/// Draws three areas over each other, with a scale and a legend; without scripts and network access.
pub(crate) fn svg(points: &[Point], title: &str, out: &mut impl Write) -> io::Result<()> {
    let (width, height) = (LEFT + WIDTH + 20, TOP + HEIGHT + 40);
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" style="max-width:100%;height:auto">"#
    )?;
    writeln!(out, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##)?;
    writeln!(out, r#"<text x="{LEFT}" y="20" font-size="14">{}</text>"#, escape_xml(title))?;
    let series = [(2, "reserved", "#d9d9d9"), (1, "pending", "#fdae6b"), (0, "allocated", "#3182bd")];
    for (at, (figure, name, colour)) in series.into_iter().enumerate() {
        writeln!(out, r#"<path fill="{colour}" d="{}"><title>{name}</title></path>"#, area(points, figure))?;
        let x = LEFT + WIDTH - 300 + at as u64 * 100;
        writeln!(out, r#"<rect x="{x}" y="10" width="12" height="12" fill="{colour}"/>"#)?;
        writeln!(out, r#"<text x="{}" y="20">{name}</text>"#, x + 16)?;
    }
    for (bytes, y) in ticks(highest(points)) {
        writeln!(out, r##"<path stroke="#888888" stroke-width="0.5" d="M{LEFT} {y}H{}"/>"##, LEFT + WIDTH)?;
        writeln!(out, r#"<text x="{}" y="{}" text-anchor="end">{bytes}</text>"#, LEFT - 6, y + 4)?;
    }
    let last = points.last().and_then(|point| point.highest.moment.entry()).unwrap_or(0);
    let below = TOP + HEIGHT + 18;
    writeln!(out, r#"<text x="{LEFT}" y="{below}">event 0</text>"#)?;
    writeln!(out, r#"<text x="{}" y="{below}" text-anchor="end">event {last}</text>"#, LEFT + WIDTH)?;
    writeln!(out, "</svg>")
}

/// The most lines of a scale above its zero.
const MAX_TICKS: u64 = 5;

/// Returns the lines of a scale up to some bytes: what each says, and how far down it is. They are multiples of a power of two.
fn ticks(most: u64) -> impl Iterator<Item = (String, u64)> {
    let step = most.div_ceil(MAX_TICKS).checked_next_power_of_two().unwrap_or(1 << 63);
    (0..=most / step).map(move |n| {
        let bytes = n * step;
        let up = u128::from(HEIGHT) * u128::from(bytes) / u128::from(most);
        (tick(bytes), TOP + HEIGHT - u64::try_from(up).unwrap_or(HEIGHT))
    })
}

/// Returns bytes without zeros that say nothing: `1.5 MiB`, `2 GiB`.
fn tick(bytes: u64) -> String {
    let text = Bytes(bytes).to_string();
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Returns the path of an area: steps from left to right, closed along the bottom.
#[allow(clippy::cast_precision_loss)]
fn area(points: &[Point], figure: usize) -> String {
    let (most, bottom) = (highest(points) as f64, TOP + HEIGHT);
    let mut path = format!("M{LEFT} {bottom}");
    for (at, point) in points.iter().enumerate() {
        let y = bottom as f64 - figures(point)[figure] as f64 / most * HEIGHT as f64;
        let x = LEFT as f64 + (at + 1) as f64 / points.len() as f64 * WIDTH as f64;
        path += &format!("V{y:.1}H{x:.1}");
    }
    path + &format!("V{bottom}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_few_round_lines() {
        let texts = |most| ticks(most).map(|(text, _)| text).collect::<Vec<_>>();
        assert_eq!(texts(1_691_355_136), ["0 B", "512 MiB", "1 GiB", "1.5 GiB"]);
        assert_eq!(texts(5 << 30), ["0 B", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB"]);
        assert_eq!(texts(1), ["0 B", "1 B"]);
        for most in [1, 999, 1 << 40, u64::MAX] {
            let all: Vec<_> = ticks(most).collect();
            assert!(
                (1..=6).contains(&all.len()) && all.iter().all(|(_, y)| (TOP..=TOP + HEIGHT).contains(y)),
                "{all:?}"
            );
        }
    }
}
