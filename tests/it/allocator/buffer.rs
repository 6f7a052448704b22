//! Views of typed memory, against plain vectors.

use std::sync::Arc;

use memreel::{
    Buffer, CachingAllocator, DeviceId,
    device::{Host, Limit, Simulated},
    recorder::Recorder,
};
use proptest::{prelude::*, test_runner::RngSeed};

fn host() -> CachingAllocator {
    CachingAllocator::new(Host::new(), &Recorder::new().track(DeviceId(0)))
}

/// The oracle: an array as a list of (index, value), with views as filters and renumberings of it.
type Plain = Vec<(Vec<usize>, i64)>;

fn plain(shape: &[usize]) -> Plain {
    let n = shape.iter().product::<usize>();
    let index = |mut nth: usize| {
        let mut index: Vec<usize> = shape.iter().rev().map(|n| (nth % n, nth /= n).0).collect();
        index.reverse();
        index
    };
    (0..n).map(|nth| (index(nth), nth as i64)).collect()
}

#[derive(Clone, Debug)]
enum View {
    Slice(usize, usize, usize),
    Step(usize, usize),
    Transpose(usize, usize),
}

fn view() -> impl Strategy<Value = View> {
    prop_oneof![
        (0..3_usize, 0..5_usize, 0..5_usize).prop_map(|(axis, start, len)| View::Slice(axis, start, len)),
        (0..3_usize, 1..4_usize).prop_map(|(axis, step)| View::Step(axis, step)),
        (0..3_usize, 0..3_usize).prop_map(|(a, b)| View::Transpose(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(20261121), ..ProptestConfig::default() })]

    #[test]
    fn views_of_views_name_the_right_elements(
        shape in prop::collection::vec(1..6_usize, 3..=3),
        views in prop::collection::vec(view(), 0..6),
    ) {
        let n = shape.iter().product::<usize>() as i64;
        let allocator = host();
        let flat = Buffer::<i64>::from_slice(&allocator, &(0..n).collect::<Vec<_>>()).unwrap();
        let mut buffer = flat.reshape(&shape).unwrap();
        let mut oracle = plain(&shape);
        for view in views {
            match view {
                View::Slice(axis, start, len) => {
                    let range = start..start + len;
                    match buffer.slice(axis, range.clone()) {
                        Ok(sliced) => buffer = sliced,
                        Err(error) => {
                            prop_assert!(error.is_invalid_view());
                            prop_assert!(range.end > buffer.shape()[axis]);
                            continue;
                        }
                    }
                    oracle.retain(|(index, _)| range.contains(&index[axis]));
                    oracle.iter_mut().for_each(|(index, _)| index[axis] -= start);
                }
                View::Step(axis, step) => {
                    buffer = buffer.step_by(axis, step).unwrap();
                    oracle.retain(|(index, _)| index[axis] % step == 0);
                    oracle.iter_mut().for_each(|(index, _)| index[axis] /= step);
                }
                View::Transpose(a, b) => {
                    buffer = buffer.transpose(a, b).unwrap();
                    oracle.iter_mut().for_each(|(index, _)| index.swap(a, b));
                }
            }
        }
        oracle.sort();
        prop_assert_eq!(buffer.len(), oracle.len());
        for (index, value) in &oracle {
            prop_assert_eq!(buffer.get(index).unwrap(), *value);
        }
        let in_order: Vec<i64> = oracle.iter().map(|(_, value)| *value).collect();
        prop_assert_eq!(buffer.to_vec(), in_order.clone());
        prop_assert_eq!(buffer.contiguous().unwrap().to_vec(), in_order.clone());
        prop_assert_eq!(buffer.as_cells().is_some(), buffer.is_contiguous());
        buffer.apply(|x| -x - 1);
        let written: Vec<i64> = flat.to_vec().into_iter().filter(|x| *x < 0).map(|x| -x - 1).collect();
        let mut expected = in_order;
        expected.sort_unstable();
        prop_assert_eq!(written, expected, "writes through the view, and only those, show in the original");
        prop_assert_eq!(allocator.stats().allocation.all.current, 1);
    }
}

#[test]
fn wrong_views_are_errors_that_say_why() {
    let matrix = Buffer::<f32>::zeros(&host(), &[4, 6]).unwrap();
    let backwards = std::ops::Range { start: 3, end: 2 };
    let errors = [
        matrix.get(&[4, 0]).unwrap_err(),
        matrix.get(&[0]).unwrap_err(),
        matrix.set(&[0, 6], 1.0).unwrap_err(),
        matrix.slice(0, 2..5).unwrap_err(),
        matrix.slice(2, 0..1).unwrap_err(),
        matrix.slice(0, backwards).unwrap_err(),
        matrix.step_by(0, 0).unwrap_err(),
        matrix.transpose(0, 2).unwrap_err(),
        matrix.reshape(&[5, 5]).unwrap_err(),
        matrix.reshape(&[usize::MAX, 2]).unwrap_err(),
        matrix.transpose(0, 1).unwrap().reshape(&[24]).unwrap_err(),
        matrix.copy_from(&matrix.transpose(0, 1).unwrap()).unwrap_err(),
    ];
    for error in errors {
        assert!(error.is_invalid_view(), "{error}");
        assert!(error.to_string().contains("shape ["), "{error}");
    }
}

#[test]
fn empty_slices_hold_nothing_and_do_no_harm() {
    let matrix = Buffer::<f32>::zeros(&host(), &[4, 6]).unwrap();
    let empty = matrix.slice(0, 4..4).unwrap();
    assert!(empty.is_empty());
    assert_eq!((empty.to_vec(), empty.as_cells().map(<[_]>::len)), (vec![], Some(0)));
    empty.fill(1.0);
    assert!(empty.clone().is_empty());
    let nowhere = empty.reshape(&[1000, 0]).unwrap().slice(0, 999..1000).unwrap();
    nowhere.fill(1.0);
    assert_eq!(nowhere.as_cells().map(<[_]>::len), Some(0));
    assert_eq!(matrix.to_vec(), [0.0; 24]);
}

#[test]
fn copies_between_overlapping_views_are_as_if_by_way_of_a_third() {
    let row = Buffer::from_slice(&host(), &[1, 2, 3, 4, 5, 6]).unwrap();
    row.slice(0, 1..6).unwrap().copy_from(&row.slice(0, 0..5).unwrap()).unwrap();
    assert_eq!(row.to_vec(), [1, 1, 2, 3, 4, 5]);
    let square = row.slice(0, 0..4).unwrap().reshape(&[2, 2]).unwrap();
    square.copy_from(&square.transpose(0, 1).unwrap()).unwrap();
    assert_eq!(square.to_vec(), [1, 2, 1, 3]);
}

#[test]
fn sizes_that_cannot_be_are_errors() {
    let allocator = host();
    let zero = Buffer::<f32>::zeros(&allocator, &[3, 0]).unwrap_err();
    assert!(zero.is_invalid_size(), "{zero}");
    for shape in [&[usize::MAX, 2][..], &[usize::MAX / 2], &[0, usize::MAX, 2]] {
        let absurd = Buffer::<f32>::zeros(&allocator, shape).unwrap_err();
        assert!(absurd.is_invalid_size(), "{absurd}");
    }
    let small = CachingAllocator::new(Limit::new(Host::new(), 1 << 20), &Recorder::new().track(DeviceId(0)));
    assert!(Buffer::<f32>::zeros(&small, &[1000, 1000]).unwrap_err().is_out_of_memory());
    let unreachable =
        CachingAllocator::new(Arc::new(Simulated::new(1 << 30)), &Recorder::new().track(DeviceId(0)));
    let error = Buffer::<f32>::zeros(&unreachable, &[8]).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("simulated"), "{error}");
    assert_eq!(unreachable.stats().num_device_alloc, 0);
}
