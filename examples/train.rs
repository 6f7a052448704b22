//! Trains a small language model on this project's README and records every
//! byte of memory that this takes: `cargo run --release --example train`. One file, so that it can be copied.
//!
//! The model reads a few characters and predicts the next one:
//!
//! ```text
//! characters → embedding → hidden layer → hidden layer → softmax → loss
//! ```
//!
//! All arrays are in host memory from memreel's caching allocator, and live as
//! long as they would on a GPU: parameters and Adam's moments for the whole run,
//! activations from the forward to the backward pass, gradients until the step
//! is done. With `--checkpoint` the backward pass computes the activations again,
//! one chunk of the batch at a time, instead of keeping them all.
//!
//! It is one long file so that you can read it from top to bottom and copy it.
//! It needs nothing but the library.

use std::{cell::Cell, collections::BTreeSet, path::PathBuf, process::exit, time::Instant};

use memreel::{Buffer, DeviceId, Element, Result, recorder::Recording};

const TEXT: &str = include_str!("../README.md");

/// Number of characters that the model reads.
const N_CONTEXT: usize = 8;
/// Length of the vector that represents a character.
const N_EMBEDDING: usize = 8;
/// Width of each hidden layer.
const N_HIDDEN: usize = 64;
/// Number of predictions in a batch.
const N_BATCH: usize = 2048;
/// Number of chunks that a batch is cut into.
const N_CHUNKS: usize = 4;

const HELP: &str = "\
Trains a small language model on this project's README and writes a memory snapshot.

Usage: train [--checkpoint] [--steps N] [--output PATH | --cost]

  --checkpoint   compute activations again in the backward pass instead of keeping them
  --steps N      train for N steps (default 250)
  --output PATH  write the snapshot to PATH (default snapshot.pickle)
  --cost         measure the cost of recording instead: train with it off and on in turns; write no file
  --help         print this text
";

fn main() {
    let options = Options::parse(std::env::args().skip(1)).unwrap_or_else(|message| {
        eprintln!("train: {message}\n\n{HELP}");
        exit(2);
    });
    let run = if options.cost { cost } else { train };
    if options.help {
        print!("{HELP}");
    } else if let Err(error) = run(&options) {
        eprintln!("train: {error}");
        exit(1);
    }
}

fn train(options: &Options) -> Result<()> {
    // Before the first allocation, so that every block has its allocation in the history.
    memreel::record_history(&Recording::all())?;
    let mut random = Random(2026);
    let text = Text::new(TEXT)?;
    let mut model = Model::new(text.n_symbols, &mut random)?;

    let start = Instant::now();
    let mut losses = Vec::new();
    for step in 1..=options.n_steps {
        let batch = text.sample(&mut random)?;
        let loss = training_step(&mut model, &batch, step, options.checkpoint)?;
        if step == 1 || step % 25 == 0 || step == options.n_steps {
            println!("step {step:>4}   loss {loss:.4}   {:5.1} s", start.elapsed().as_secs_f64());
        }
        losses.push(loss);
    }
    report(losses[0], losses[losses.len() - 1])?;

    // While the model is alive, so that its blocks are in use in the snapshot.
    memreel::save(&options.output)?;
    let file = options.output.display();
    println!("\nLook at it: memreel view {file}, or drop the file on https://pytorch.org/memory_viz");
    Ok(())
}

/// Prints the cost of recording: runs rounds of ten steps with recording off and on in turns, and compares medians.
fn cost(options: &Options) -> Result<()> {
    let mut random = Random(2026);
    let text = Text::new(TEXT)?;
    let mut model = Model::new(text.n_symbols, &mut random)?;
    let mut ms_a_step = [Vec::new(), Vec::new()];
    for round in 0..2 * options.n_steps.div_ceil(20) {
        let is_on = round % 2 == 1;
        memreel::record_history(&if is_on { Recording::all() } else { Recording::off() })?;
        let start = Instant::now();
        for step in 1..=10 {
            let batch = text.sample(&mut random)?;
            training_step(&mut model, &batch, 10 * round + step, options.checkpoint)?;
        }
        ms_a_step[usize::from(is_on)].push(start.elapsed().as_secs_f64() * 100.0);
    }
    let [off, on] = ms_a_step.map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        rounds[rounds.len() / 2]
    });
    println!(
        "a step takes {off:.3} ms with recording off, {on:.3} ms on: {:+.2} %",
        (on / off - 1.0) * 100.0
    );
    Ok(())
}

/// Predicts, computes the gradients and updates the parameters. Returns the mean loss.
fn training_step(model: &mut Model, batch: &Batch, step: u32, checkpoint: bool) -> Result<f64> {
    let mut kept = Vec::new();
    let mut sum = 0.0;
    {
        let _scope = memreel::scope("forward")?;
        for i in 0..N_CHUNKS {
            let chunk = batch.chunk(i)?;
            let (activations, loss) = forward(model, &chunk)?;
            sum += loss;
            // With checkpoints, the activations are freed here.
            kept.push((chunk, loss, if checkpoint { None } else { Some(activations) }));
        }
    }
    {
        let _scope = memreel::scope("backward")?;
        while let Some((chunk, loss, activations)) = kept.pop() {
            let activations = match activations {
                Some(activations) => activations,
                None => recompute(model, &chunk, loss)?,
            };
            backward(model, &chunk, activations)?;
        }
    }
    let _scope = memreel::scope("step")?;
    for parameter in model.parameters() {
        parameter.adam(step)?;
    }
    for parameter in model.parameters() {
        parameter.gradient = None;
    }
    Ok(sum / N_BATCH as f64)
}

fn recompute(model: &Model, chunk: &Batch, loss: f64) -> Result<Activations> {
    let _scope = memreel::scope("forward")?;
    let (activations, again) = forward(model, chunk)?;
    assert_eq!(again, loss, "the same arithmetic in the same order gives the same bits");
    Ok(activations)
}

struct Model {
    embedding: Parameter,
    /// Two hidden layers and the one that computes the scores.
    layers: [Linear; 3],
}

/// A layer: `output = input × weight + bias`.
struct Linear {
    weight: Parameter,
    bias: Parameter,
}

/// Results of the forward pass that the backward pass needs, one row for each
/// prediction. Fields are dropped in this order: the last result is freed first.
struct Activations {
    /// The predicted probability of each symbol.
    probabilities: Buffer<f32>,
    /// Outputs of the hidden layers.
    second: Buffer<f32>,
    first: Buffer<f32>,
    /// The embeddings of the context, side by side.
    input: Buffer<f32>,
}

impl Model {
    fn new(n_symbols: usize, random: &mut Random) -> Result<Model> {
        let mut linear = |n_in: usize, n_out| -> Result<Linear> {
            let weight = Parameter::random(&[n_in, n_out], (3.0 / n_in as f32).sqrt(), random)?;
            Ok(Linear { weight, bias: Parameter::random(&[n_out], 0.0, random)? })
        };
        let first = linear(N_CONTEXT * N_EMBEDDING, N_HIDDEN)?;
        let layers = [first, linear(N_HIDDEN, N_HIDDEN)?, linear(N_HIDDEN, n_symbols)?];
        Ok(Model { embedding: Parameter::random(&[n_symbols, N_EMBEDDING], 1.0, random)?, layers })
    }

    fn parameters(&mut self) -> impl Iterator<Item = &mut Parameter> {
        let layers = self.layers.iter_mut().flat_map(|layer| [&mut layer.weight, &mut layer.bias]);
        layers.chain([&mut self.embedding])
    }
}

/// Returns the activations and the sum of the losses.
fn forward(model: &Model, chunk: &Batch) -> Result<(Activations, f64)> {
    let input = embed(&model.embedding, &chunk.contexts)?;
    let first = linear(&model.layers[0], &input)?;
    first.apply(f32::tanh);
    let second = linear(&model.layers[1], &first)?;
    second.apply(f32::tanh);
    let probabilities = linear(&model.layers[2], &second)?;
    let loss = softmax(&probabilities, &chunk.targets);
    Ok((Activations { probabilities, second, first, input }, loss))
}

/// Adds the chunk's part to every gradient, from the last layer to the first, and
/// frees each activation as soon as no earlier layer needs it.
fn backward(model: &mut Model, chunk: &Batch, activations: Activations) -> Result<()> {
    let Activations { probabilities, second, first, input } = activations;
    softmax_backward(&probabilities, &chunk.targets);
    let d_second = linear_backward(&mut model.layers[2], &second, &probabilities)?;
    drop(probabilities);
    tanh_backward(&d_second, &second);
    drop(second);
    let d_first = linear_backward(&mut model.layers[1], &first, &d_second)?;
    drop(d_second);
    tanh_backward(&d_first, &first);
    drop(first);
    let d_input = linear_backward(&mut model.layers[0], &input, &d_first)?;
    drop((d_first, input));
    embed_backward(&mut model.embedding, &chunk.contexts, &d_input)
}

fn embed(embedding: &Parameter, contexts: &Buffer<u32>) -> Result<Buffer<f32>> {
    let output = zeros(&[contexts.shape()[0], N_CONTEXT * N_EMBEDDING])?;
    let table: Vec<_> = rows(&embedding.value).collect();
    for (vector, symbol) in cells(&output).chunks_exact(N_EMBEDDING).zip(cells(contexts)) {
        add_scaled(vector, 1.0, table[symbol.get() as usize]);
    }
    Ok(output)
}

fn embed_backward(embedding: &mut Parameter, contexts: &Buffer<u32>, d_output: &Buffer<f32>) -> Result<()> {
    let (_, gradient) = embedding.with_gradient()?;
    let d_table: Vec<_> = rows(gradient).collect();
    for (d_vector, symbol) in cells(d_output).chunks_exact(N_EMBEDDING).zip(cells(contexts)) {
        add_scaled(d_table[symbol.get() as usize], 1.0, d_vector);
    }
    Ok(())
}

fn linear(layer: &Linear, input: &Buffer<f32>) -> Result<Buffer<f32>> {
    let bias = cells(&layer.bias.value);
    let output = zeros(&[input.shape()[0], bias.len()])?;
    for (y, x) in rows(&output).zip(rows(input)) {
        add_scaled(y, 1.0, bias);
        for (x, weights) in x.iter().zip(rows(&layer.weight.value)) {
            add_scaled(y, x.get(), weights);
        }
    }
    Ok(output)
}

/// Returns the gradient of a layer's input, given that of its output, and adds
/// to the gradients of its weight and bias.
fn linear_backward(layer: &mut Linear, input: &Buffer<f32>, d_output: &Buffer<f32>) -> Result<Buffer<f32>> {
    let (weight, d_weight) = layer.weight.with_gradient()?;
    let (_, d_bias) = layer.bias.with_gradient()?;
    let d_input = zeros(input.shape())?;
    for ((x, dy), dx) in rows(input).zip(rows(d_output)).zip(rows(&d_input)) {
        add_scaled(cells(d_bias), 1.0, dy);
        for (((x, dx), weights), d_weights) in x.iter().zip(dx).zip(rows(weight)).zip(rows(d_weight)) {
            add_scaled(d_weights, x.get(), dy);
            dx.set(dot(dy, weights));
        }
    }
    Ok(d_input)
}

/// Turns the gradient of tanh's output into that of its input.
fn tanh_backward(gradient: &Buffer<f32>, output: &Buffer<f32>) {
    cells(gradient).iter().zip(cells(output)).for_each(|(d, y)| d.set(d.get() * (1.0 - y.get() * y.get())));
}

/// Turns scores into probabilities, in place. Returns the sum of the losses.
fn softmax(scores: &Buffer<f32>, targets: &Buffer<u32>) -> f64 {
    let mut loss = 0.0;
    for (row, target) in rows(scores).zip(cells(targets)) {
        // Subtracting the greatest score keeps the exponentials from overflowing.
        let greatest = row.iter().fold(f32::NEG_INFINITY, |greatest, score| greatest.max(score.get()));
        row.iter().for_each(|score| score.set((score.get() - greatest).exp()));
        let sum: f32 = row.iter().map(Cell::get).sum();
        row.iter().for_each(|score| score.set(score.get() / sum));
        let probability = row[target.get() as usize].get().max(f32::MIN_POSITIVE);
        loss -= f64::from(probability.ln());
    }
    loss
}

/// Turns probabilities into the gradient of the mean loss with respect to the scores, in place.
fn softmax_backward(probabilities: &Buffer<f32>, targets: &Buffer<u32>) {
    for (row, target) in rows(probabilities).zip(cells(targets)) {
        let target = &row[target.get() as usize];
        target.set(target.get() - 1.0);
    }
    probabilities.apply(|d| d / N_BATCH as f32);
}

/// Numbers that are learned. The gradient is allocated in each backward pass, the
/// moments in the first step.
struct Parameter {
    value: Buffer<f32>,
    gradient: Option<Buffer<f32>>,
    moments: Option<[Buffer<f32>; 2]>,
}

impl Parameter {
    /// Returns numbers drawn uniformly from `-scale` to `scale`.
    fn random(shape: &[usize], scale: f32, random: &mut Random) -> Result<Parameter> {
        let value = zeros(shape)?;
        cells(&value).iter().for_each(|cell| cell.set(scale * (2.0 * random.next() - 1.0)));
        Ok(Parameter { value, gradient: None, moments: None })
    }

    fn with_gradient(&mut self) -> Result<(&Buffer<f32>, &Buffer<f32>)> {
        let gradient = match &mut self.gradient {
            Some(gradient) => gradient,
            none => none.insert(zeros(self.value.shape())?),
        };
        Ok((&self.value, gradient))
    }

    /// One step of Adam (Kingma and Ba 2015): against the running mean of the
    /// gradient, divided by the root of the running mean of its square.
    fn adam(&mut self, step: u32) -> Result<()> {
        let [rate, beta_1, beta_2, epsilon] = [0.004_f32, 0.9, 0.99, 1e-8];
        let Some(gradient) = &self.gradient else { return Ok(()) };
        let [means, squares] = match &mut self.moments {
            Some(moments) => moments,
            none => none.insert([zeros(self.value.shape())?, zeros(self.value.shape())?]),
        };
        // Corrects for both means starting at zero.
        let [weight_1, weight_2] = [beta_1, beta_2].map(|beta| 1.0 - beta.powf(step as f32));
        let moments = cells(means).iter().zip(cells(squares));
        for ((value, g), (mean, square)) in cells(&self.value).iter().zip(cells(gradient)).zip(moments) {
            let g = g.get();
            mean.set(beta_1 * mean.get() + (1.0 - beta_1) * g);
            square.set(beta_2 * square.get() + (1.0 - beta_2) * g * g);
            let root = (square.get() / weight_2).sqrt() + epsilon;
            value.set(value.get() - rate * mean.get() / weight_1 / root);
        }
        Ok(())
    }
}

/// A text as numbers: each distinct character has one.
struct Text {
    symbols: Buffer<u32>,
    n_symbols: usize,
}

impl Text {
    fn new(text: &str) -> Result<Text> {
        let alphabet: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
        let numbers = text.chars().filter_map(|c| alphabet.binary_search(&c).ok());
        let symbols = zeros(&[text.chars().count()])?;
        cells(&symbols).iter().zip(numbers).for_each(|(cell, number)| cell.set(number as u32));
        Ok(Text { symbols, n_symbols: alphabet.len() })
    }

    /// Returns a batch from random positions in the text.
    fn sample(&self, random: &mut Random) -> Result<Batch> {
        let contexts = zeros(&[N_BATCH, N_CONTEXT])?;
        let targets = zeros(&[N_BATCH])?;
        let symbols = cells(&self.symbols);
        for (context, target) in rows(&contexts).zip(cells(&targets)) {
            let place = (random.next() * (symbols.len() - N_CONTEXT) as f32) as usize;
            let (seen, next) = symbols[place..=place + N_CONTEXT].split_at(N_CONTEXT);
            context.iter().zip(seen).for_each(|(to, from)| to.set(from.get()));
            target.set(next[0].get());
        }
        Ok(Batch { contexts, targets })
    }
}

/// Contexts, one in each row, and the symbol that follows each.
struct Batch {
    contexts: Buffer<u32>,
    targets: Buffer<u32>,
}

impl Batch {
    /// Returns one of `N_CHUNKS` equal parts, as views: they share the batch's memory.
    fn chunk(&self, i: usize) -> Result<Batch> {
        let rows = i * N_BATCH / N_CHUNKS..(i + 1) * N_BATCH / N_CHUNKS;
        Ok(Batch { contexts: self.contexts.slice(0, rows.clone())?, targets: self.targets.slice(0, rows)? })
    }
}

/// SplitMix64: gives the same numbers in every run.
struct Random(u64);

impl Random {
    /// Returns a number from 0 up to, but not including, 1.
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
    }
}

/// Returns the elements of an array. All arrays here are contiguous.
fn cells<T: Element>(array: &Buffer<T>) -> &[Cell<T>] {
    array.as_cells().expect("only transposed or stepped views are not contiguous")
}

fn rows<T: Element>(array: &Buffer<T>) -> impl Iterator<Item = &[Cell<T>]> {
    cells(array).chunks_exact(array.shape()[1])
}

/// `y += scale · x`
fn add_scaled(y: &[Cell<f32>], scale: f32, x: &[Cell<f32>]) {
    y.iter().zip(x).for_each(|(y, x)| y.set(y.get() + scale * x.get()));
}

/// Returns the dot product, in eight partial sums that a processor adds at once.
fn dot(a: &[Cell<f32>], b: &[Cell<f32>]) -> f32 {
    let mut sums = [0.0; 8];
    let (a, b) = (a.chunks(sums.len()), b.chunks(sums.len()));
    for (a, b) in a.zip(b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a.get() * b.get());
    }
    sums.iter().sum()
}

/// The state of memory when the most was allocated.
#[derive(Clone, Copy, Default)]
struct Peak {
    allocated_bytes: u64,
    reserved_bytes: u64,
    largest_free_bytes: u64,
}

thread_local! {
    static PEAK: Cell<Peak> = Cell::default();
}

/// Allocates an array of zeros. Every array is made here, so every peak is seen here.
fn zeros<T: Element>(shape: &[usize]) -> Result<Buffer<T>> {
    let allocator = memreel::default_allocator()?;
    let array = Buffer::zeros(allocator, shape)?;
    let allocated_bytes = allocator.memory_allocated();
    if allocated_bytes > PEAK.get().allocated_bytes {
        let [reserved_bytes, largest_free_bytes] =
            [allocator.memory_reserved(), allocator.largest_free_block()];
        PEAK.set(Peak { allocated_bytes, reserved_bytes, largest_free_bytes });
    }
    Ok(array)
}

fn report(first_loss: f64, last_loss: f64) -> Result<()> {
    let peak = PEAK.get();
    let recorder = memreel::default_reel()?.recorder();
    // The viewer counts requested bytes; the allocator also counts what rounding adds.
    let requested_bytes = memreel::stats()?.requested_bytes.all.current.cast_unsigned();
    let unused = 1.0 - peak.allocated_bytes as f64 / peak.reserved_bytes as f64;
    println!();
    println!("loss, first to last         {first_loss:.4} → {last_loss:.4}");
    println!("peak allocated              {}", size(peak.allocated_bytes));
    println!("peak reserved               {}", size(memreel::max_memory_reserved()?));
    println!("unused at the peak          {:.1} % of the reserved bytes", 100.0 * unused);
    println!("largest free block at peak  {}", size(peak.largest_free_bytes));
    println!("requested at the end        {}", size(requested_bytes));
    println!("reserved at the end         {}", size(memreel::memory_reserved()?));
    println!("events recorded             {}", recorder.n_events(DeviceId(0)));
    println!("events lost                 {}", recorder.n_lost(DeviceId(0)));
    Ok(())
}

/// Formats a size as the viewer does.
fn size(bytes: u64) -> String {
    let (unit, name) = if bytes < 1 << 20 { (1 << 10, "KiB") } else { (1 << 20, "MiB") };
    format!("{:.1}{name} ({bytes} bytes)", bytes as f64 / f64::from(unit))
}

struct Options {
    help: bool,
    cost: bool,
    checkpoint: bool,
    n_steps: u32,
    output: PathBuf,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Options, String> {
        let mut options = Options {
            help: false,
            cost: false,
            checkpoint: false,
            n_steps: 250,
            output: "snapshot.pickle".into(),
        };
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--help" | "-h" => options.help = true,
                "--cost" => options.cost = true,
                "--checkpoint" => options.checkpoint = true,
                "--output" => options.output = value()?.into(),
                "--steps" => {
                    options.n_steps =
                        value()?.parse().ok().filter(|n| *n > 0).ok_or("--steps needs a positive number")?;
                }
                _ => return Err(format!("unknown option {flag}")),
            }
        }
        Ok(options)
    }
}
