//! Training runs of PyTorch on a GPU at several sizes (`fixtures/torch-2.11/sizes`).

use std::num::NonZeroU64;

use memreel::{fit::Size, history::Confidence};
use serde_json::Value;

use super::{
    sized_recording::{model, snapshot},
    with_sizes,
};

/// Returns how many percent the reserved peak of a prediction is from the measured one. The requested peak is right to the byte.
#[allow(clippy::cast_precision_loss)]
fn deviation_percent(model: &Value, of: [u64; 2], at: u64) -> (f64, Confidence) {
    let runs = of.map(|size| (size, snapshot(model, size)));
    let predicted = with_sizes(&runs.each_ref().map(|(size, snapshot)| (*size, snapshot)), |sizes| {
        sizes.unwrap().at(Size::new(at).unwrap()).unwrap()
    });
    let measured = &model["peaks"][at.to_string()];
    assert_eq!(predicted.requested_peak_bytes.bytes, measured["requested_peak"].as_u64().unwrap(), "{at}");
    let (reserved, right) = (predicted.reserved_peak_bytes, measured["reserved_peak"].as_u64().unwrap());
    let deviation = (reserved.bytes as f64 - right as f64) * 100.0 / right as f64;
    (deviation, predicted.confidence)
}

#[test]
fn a_size_that_was_recorded_is_itself() {
    for (name, of) in [("resnet50", [16, 32]), ("llama_eager", [512, 768])] {
        let model = model(name);
        assert_eq!(of.map(|at| deviation_percent(&model, of, at).0), [0.0; 2], "{name}");
    }
}

/// Attention without a kernel of its own takes memory with the square of the length.
#[test]
fn squares_are_found_in_two_runs() {
    let model = model("llama_eager");
    for at in [1024, 1536] {
        assert_eq!(deviation_percent(&model, [512, 768], at), (0.0, Confidence::Sure), "{at}");
    }
}

/// Workspaces of convolutions follow no law, and the answer says that it is not sure.
#[test]
fn workspaces_without_a_law_widen_the_bounds() {
    let model = model("resnet50");
    for at in [48, 64] {
        let (percent, confidence) = deviation_percent(&model, [16, 32], at);
        assert!(percent.abs() < 2.0 && confidence > Confidence::Sure, "{at}: {percent} {confidence}");
    }
}

/// Of two runs of 512 and 768 the largest length under 8 GiB needs at most that, and the next one fails.
#[test]
fn the_largest_size_fits_and_the_next_one_fails() {
    let model = model("llama_eager");
    let runs = [512, 768].map(|size| (size, snapshot(&model, size)));
    let limit = 8 << 30;
    with_sizes(&runs.each_ref().map(|(size, snapshot)| (*size, snapshot)), |sizes| {
        let sizes = sizes.unwrap();
        let step = NonZeroU64::new(64).unwrap();
        let largest = sizes.largest(limit, step, |number| Size::new(number.get())).unwrap();
        let (fits, fails) = (largest.fits.unwrap(), largest.fails.unwrap());
        assert_eq!(fits.size.numbers()[0] + 64, fails.size.numbers()[0]);
        assert!(fits.reserved_peak_bytes.bytes <= limit && fits.failure.is_none());
        // 1,024 needs 6.5 GiB, and 1,536 needs 9.8.
        assert!((1024..1536).contains(&fits.size.numbers()[0]), "{:?}", fits.size);
        assert!(fails.failure.is_some());
    });
}
