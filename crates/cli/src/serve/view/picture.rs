//! A picture of a window: what is in use in each column, as rows of blocks, and the figures' extremes.

#![forbid(unsafe_code)]

use memreel_snapshot::history::Life;

use super::{
    choice::{Choice, Search},
    device::Device,
    figures::Extremes,
    groups::Colour,
    raster::raster,
    refusal::Refusal,
    request::Request,
    sizes::Sizes,
    sums::sums,
    window::{Column, Window},
};

/// Up to this number of blocks a picture shows every one.
const N_ALL: usize = 20_000;

/// The most blocks of a picture: their places are 16 bits, of which two values mean something else.
const N_MOST: usize = 65_000;

/// In the place of a life's number: the small blocks of a group.
const SUM: u32 = u32::MAX;

/// What comes before the bytes of a picture.
const MAGIC: &[u8; 4] = b"MRP1";

/// The bytes of a picture's height: from the lowest row to the highest.
#[derive(Clone, Copy)]
struct Height {
    low: f64,
    high: f64,
    n_rows: usize,
}

impl Height {
    #[allow(clippy::cast_precision_loss)]
    fn of(request: &Request, device: &Device<'_>) -> Result<Height, Refusal> {
        let rise: u32 = request.number("rise")?.unwrap_or(0).min(40);
        let shelf: u64 = request.number("shelf")?.unwrap_or(0).min((1 << (rise + 1)) - 2);
        let bytes = device.top_bytes as f64 / f64::from(rise).exp2();
        let low = shelf as f64 * bytes / 2.0;
        let n_rows = request.number("rows")?.unwrap_or(400).clamp(64, 1024);
        Ok(Height { low, high: low + bytes, n_rows })
    }

    fn row_bytes(&self) -> f64 {
        (self.high - self.low) / self.n_rows as f64
    }

    /// Returns the first row whose middle is at or above these bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn row(&self, bytes: u64) -> usize {
        let row = ((bytes as f64 - self.low) / self.row_bytes() - 0.5).ceil();
        (row.max(0.0) as usize).min(self.n_rows)
    }
}

/// Draws the picture that was asked for.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn answer(request: &Request, device: &Device<'_>) -> Result<Vec<u8>, Refusal> {
    let window = Window::of(request, device)?;
    let height = Height::of(request, device)?;
    let colour = Colour::parse(request.text("colour"))?;
    let choice = Choice::of(request, device, false)?;
    let search = Search::of(request, device);
    let columns = window.columns(device);
    let figures: Vec<Extremes> =
        columns.iter().map(|(from, until)| device.figures.between(&device.history, *from, *until)).collect();
    let ends = [columns.first(), columns.last()].map(|column| *column.unwrap_or(&(0, 1)));
    let moments = [ends[0].0, ends[1].1 - 1].map(super::figures::moment);
    let lives = device.history.lives();
    let is_chosen = |number: u32| choice.is_all() || choice.holds(&lives[number as usize], number);
    let least_bytes = (height.row_bytes() / 2.0) as u64;
    let near = device.within(moments);
    let of_near = near.as_ref().map(|numbers| Sizes::of(lives, numbers));
    let sizes = of_near.as_ref().unwrap_or(&device.sizes);
    let shown = sizes.shown(lives, moments, least_bytes, [N_ALL, N_MOST], is_chosen);
    let mut numbers = shown.lives;
    numbers.sort_unstable_by_key(|number| (lives[*number as usize].from, *number));
    let bands: Vec<&Life> = numbers.iter().map(|number| &lives[*number as usize]).collect();
    let groups = device.groups(colour);
    let sums = if shown.are_all {
        Vec::new()
    } else {
        let is_small = |(number, life): &(u32, &Life)| {
            life.represented_bytes < least_bytes
                && life.from <= moments[1]
                && life.until > moments[0]
                && is_chosen(*number)
        };
        let number = |at: u32| near.as_ref().map_or(at, |numbers| numbers[at as usize]);
        let n_near = near.as_ref().map_or(lives.len(), Vec::len);
        let all = (0..).take(n_near).map(number).map(|number| (number, &lives[number as usize]));
        sums(groups, &figures, all.filter(is_small))
    };
    let raster = raster(&sums, &bands, &figures, height.n_rows, |bytes| height.row(bytes));

    let mut out = Out(Vec::with_capacity(raster.len() * 2 + columns.len() * 32));
    out.0.extend_from_slice(MAGIC);
    let are_all = u32::from(shown.are_all && choice.is_all());
    let n_places = sums.len() + bands.len();
    [columns.len(), height.n_rows, n_places].into_iter().for_each(|n| out.u32(n as u32));
    out.u32(are_all);
    out.u32(n_moments(&columns) as u32);
    [window.from, window.to, height.low, height.high].into_iter().for_each(|edge| out.f64(edge));
    figures.iter().for_each(|column| out.u32(column.highest.0));
    let figure: [fn(&Extremes) -> [u64; 2]; 3] = [|of| of.allocated, |of| of.active, |of| of.reserved];
    for figure in figure {
        (0..2).for_each(|end| figures.iter().for_each(|column| out.f32(figure(column)[end])));
    }
    sums.iter().for_each(|_| out.u32(SUM));
    numbers.iter().for_each(|number| out.u32(*number));
    sums.iter().for_each(|sum| out.u32(sum.group));
    numbers.iter().zip(&bands).for_each(|(number, life)| out.u32(groups.number(life, *number)));
    sums.iter().for_each(|sum| out.bytes(sum.bytes.iter().copied().max().unwrap_or(0)));
    bands.iter().for_each(|life| out.bytes(life.represented_bytes));
    let is_found =
        |(number, life): (&u32, &&Life)| search.as_ref().is_some_and(|search| search.finds(life, *number));
    out.0.extend(sums.iter().map(|_| 0));
    out.0.extend(numbers.iter().zip(&bands).map(|pair| u8::from(is_found(pair))));
    out.0.resize(out.0.len().next_multiple_of(4), 0);
    raster.iter().for_each(|place| out.0.extend_from_slice(&place.to_le_bytes()));
    Ok(out.0)
}

fn n_moments(columns: &[Column]) -> usize {
    columns.first().zip(columns.last()).map_or(0, |(first, last)| last.1 - first.0)
}

/// The bytes of a picture, little endian.
struct Out(Vec<u8>);

impl Out {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn f64(&mut self, number: f64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    #[allow(clippy::cast_precision_loss)]
    fn f32(&mut self, bytes: u64) {
        self.0.extend_from_slice(&(bytes as f32).to_le_bytes());
    }

    #[allow(clippy::cast_precision_loss)]
    fn bytes(&mut self, bytes: u64) {
        self.f64(bytes as f64);
    }
}
