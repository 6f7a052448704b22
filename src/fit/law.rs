//! The law of a request: how its bytes depend on the size of the run.
//!
//! A law is a term with a coefficient, such as `4096·batch`, or a sum of two, such as `1024·batch + 9216`. It is proven
//! if it has fewer coefficients than there are runs, and all runs obey it. So two runs prove a constant, a proportion
//! or a square. A line through two runs is proven only if it has the form of a shape: `8192·(length + 2)`. A request
//! without a proven law has bounds.

use super::size::{Size, Term};

/// The bytes of a request at one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) size: Size,
    pub(super) bytes: u64,
}

/// The size of a request at a run size: a guess and its bounds, which are equal for a proven law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expected {
    pub(super) bytes: u64,
    pub(super) at_least_bytes: u64,
    pub(super) at_most_bytes: u64,
}

/// Returns whether a law with one coefficient leads from the bytes at one size to those at another.
pub(super) fn is_lawful(from: Seen, to: Seen) -> bool {
    Term::ALL.into_iter().any(|term| is_near(scaled(from, term, to.size), to.bytes))
}

/// Returns the bytes of a request at `size`, from those that were seen, of which the first belongs to the run nearest
/// to `size`.
pub(super) fn expected(seen: &[Seen], size: Size) -> Expected {
    let first = seen[0];
    let obeyed = |law: &dyn Fn(Size) -> f64| seen.iter().all(|seen| is_near(law(seen.size), seen.bytes));
    let proportions = Term::ALL.into_iter().filter(|term| obeyed(&|at| scaled(first, *term, at)));
    let proportions = proportions.map(|term| scaled(first, term, size));
    if seen.len() > 1
        && let Some(expected) = among(proportions)
    {
        return expected;
    }
    let lines = seen[1..].first().into_iter().flat_map(|second| Line::all(first, *second));
    let earned = lines.filter(|line| obeyed(&|at| line.at(at)) && (seen.len() > 2 || line.is_of_a_shape()));
    among(earned.map(|line| line.at(size))).unwrap_or_else(|| bounded(seen, size))
}

/// A sum of two terms.
#[derive(Clone, Copy, Debug)]
struct Line {
    terms: [Term; 2],
    coefficients: [f64; 2],
}

impl Line {
    /// Returns the lines through the bytes at two sizes.
    fn all(one: Seen, other: Seen) -> impl Iterator<Item = Line> {
        let pairs = (0..Term::ALL.len()).flat_map(|i| (i + 1..Term::ALL.len()).map(move |j| [i, j]));
        pairs.filter_map(move |pair| Line::through(pair.map(|at| Term::ALL[at]), one, other))
    }

    /// Returns the sum of the terms that fits both sizes; `None` if there is none, or if a coefficient is negative.
    fn through(terms: [Term; 2], one: Seen, other: Seen) -> Option<Line> {
        let [a, b] = terms.map(|term| term.of(one.size));
        let [c, d] = terms.map(|term| term.of(other.size));
        let determinant = a * d - b * c;
        let [one, other] = [one.bytes, other.bytes].map(float);
        let coefficients = [(one * d - b * other) / determinant, (a * other - one * c) / determinant];
        (determinant != 0.0 && coefficients.iter().all(|of| *of >= 0.0))
            .then_some(Line { terms, coefficients })
    }

    fn at(&self, size: Size) -> f64 {
        self.terms.iter().zip(self.coefficients).map(|(term, coefficient)| term.of(size) * coefficient).sum()
    }

    /// Returns whether the line belongs to a shape with a few more rows than the size: `c·(size + k)`.
    fn is_of_a_shape(&self) -> bool {
        const MOST_ROWS: f64 = 64.0;
        let rows = self.coefficients[0] / self.coefficients[1];
        self.terms[0] == Term::ONE
            && self.terms[1].is_linear()
            && rows <= MOST_ROWS
            && [rows, self.coefficients[1]].iter().all(|number| number.fract() == 0.0)
    }
}

/// Returns the bounds of a request without a proven law. Between two sizes that were seen, they are the bytes at these
/// sizes; elsewhere a constant and a proportion, or further if the request grew faster.
fn bounded(seen: &[Seen], size: Size) -> Expected {
    let first = seen[0];
    let constant = float(first.bytes);
    let proportion = constant * size.times(first.size);
    let lines = seen[1..].iter().filter_map(|other| {
        let slope = (float(first.bytes) - float(other.bytes)) / (first.size.times(other.size) - 1.0);
        let line = constant + slope * (size.times(other.size) - first.size.times(other.size));
        line.is_finite().then_some(line.max(0.0))
    });
    let lines: Vec<f64> = lines.collect();
    let is_between = |other: &Seen| (first.size < size) == (size < other.size);
    let guess = lines.first().copied().unwrap_or(proportion);
    let bounds: Vec<f64> = match seen[1..].iter().find(|other| is_between(other)) {
        Some(beyond) => vec![constant, float(beyond.bytes)],
        None => [constant, proportion].into_iter().chain(lines).collect(),
    };
    among([guess].into_iter().chain(bounds)).unwrap_or(Expected {
        bytes: first.bytes,
        at_least_bytes: first.bytes,
        at_most_bytes: first.bytes,
    })
}

/// Returns the first of several numbers of bytes as the guess, with the others as bounds.
fn among(mut all: impl Iterator<Item = f64>) -> Option<Expected> {
    let first = bytes(all.next()?);
    let guess = Expected { bytes: first, at_least_bytes: first, at_most_bytes: first };
    Some(all.map(bytes).fold(guess, |bounds, bytes| Expected {
        at_least_bytes: bounds.at_least_bytes.min(bytes),
        at_most_bytes: bounds.at_most_bytes.max(bytes),
        ..bounds
    }))
}

/// Returns the bytes at a size, in proportion to a term.
fn scaled(from: Seen, term: Term, size: Size) -> f64 {
    float(from.bytes) * (term.of(size) / term.of(from.size))
}

/// Returns whether a law's bytes equal those that were seen, up to a library's rounding.
fn is_near(law: f64, bytes: u64) -> bool {
    const MOST_BYTES: f64 = 512.0;
    (law - float(bytes)).abs() <= (float(bytes) / 64.0).min(MOST_BYTES)
}

#[allow(clippy::cast_precision_loss)]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
// No request has 0 bytes.
fn bytes(number: f64) -> u64 {
    number.round().max(1.0) as u64
}
