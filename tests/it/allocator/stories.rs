//! What people tell each other about this allocator, with the numbers.

use std::sync::Arc;

use memreel::{
    Buffer, CachingAllocator, DeviceId, StreamId,
    device::{Host, Simulated},
    recorder::Recorder,
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn host() -> CachingAllocator {
    CachingAllocator::new(Host::new(), &Recorder::new().track(DeviceId(0)))
}

fn simulated() -> CachingAllocator {
    CachingAllocator::new(Arc::new(Simulated::new(80 * GIB)), &Recorder::new().track(DeviceId(0)))
}

#[test]
fn a_small_matrix_reserves_twenty_mebibytes_and_its_deletion_returns_none() {
    let allocator = host();
    let matrix = Buffer::<f32>::zeros(&allocator, &[1000, 1000]).unwrap();
    assert_eq!((allocator.memory_allocated(), allocator.memory_reserved()), (4_000_256, 20 * MIB));
    drop(matrix);
    assert_eq!((allocator.memory_allocated(), allocator.memory_reserved()), (0, 20 * MIB));
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(), 0);
}

#[test]
fn emptying_the_cache_returns_only_what_is_unused() {
    let allocator = host();
    let kept = Buffer::<f32>::zeros(&allocator, &[1000, 1000]).unwrap();
    let dropped = Buffer::<f32>::zeros(&allocator, &[5000, 1000]).unwrap();
    assert_eq!(allocator.memory_reserved(), 40 * MIB);
    drop(dropped);
    allocator.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(), 20 * MIB, "the segment of the live matrix stays whole");
    drop(kept);
}

#[test]
fn reassigning_a_gibibyte_needs_two_and_then_no_more() {
    let allocator = simulated();
    let make = || Some(allocator.alloc(GIB, StreamId::DEFAULT).unwrap());
    let mut x = make();
    assert_eq!(allocator.memory_reserved(), GIB);
    for round in 2..5 {
        // The right side is made before the old value of the left is dropped.
        x = make();
        assert_eq!(allocator.memory_reserved(), 2 * GIB, "round {round}");
        assert_eq!((allocator.memory_allocated(), allocator.max_memory_allocated()), (GIB, 2 * GIB));
    }
    drop(x);
}

#[test]
fn a_transpose_costs_nothing_and_writes_through() {
    let allocator = host();
    let matrix = Buffer::<f32>::zeros(&allocator, &[300, 200]).unwrap();
    let before = allocator.stats();
    let transposed = matrix.transpose(0, 1).unwrap();
    let row = transposed.slice(0, 5..6).unwrap();
    let every_third = matrix.step_by(0, 3).unwrap();
    assert_eq!(allocator.stats(), before);
    assert_eq!((transposed.shape(), transposed.strides()), (&[200, 300][..], &[1, 200][..]));
    assert_eq!((row.shape(), every_third.shape()), (&[1, 300][..], &[100, 200][..]));
    transposed.set(&[5, 6], 1.5).unwrap();
    row.set(&[0, 9], 2.5).unwrap();
    assert_eq!([[6, 5], [9, 5]].map(|index| matrix.get(&index).unwrap()), [1.5, 2.5]);
    assert_eq!(every_third.get(&[3, 5]).unwrap(), 2.5);
}

#[test]
fn contiguous_and_clone_cost_their_bytes() {
    let allocator = host();
    let matrix = Buffer::from_slice(&allocator, &(0..60_000_u16).map(f32::from).collect::<Vec<_>>()).unwrap();
    let matrix = matrix.reshape(&[300, 200]).unwrap();
    let one = allocator.memory_allocated();
    assert_eq!(one, 240_128);
    let in_order = matrix.contiguous().unwrap();
    assert!(in_order.shares_storage(&matrix));
    assert_eq!(allocator.memory_allocated(), one, "it was in order already");
    let copy = matrix.transpose(0, 1).unwrap().contiguous().unwrap();
    assert_eq!(allocator.memory_allocated(), 2 * one);
    assert_eq!(copy.get(&[7, 11]).unwrap(), matrix.get(&[11, 7]).unwrap());
    let clone = matrix.clone();
    assert_eq!(allocator.memory_allocated(), 3 * one);
    clone.fill(0.0);
    assert_eq!(matrix.get(&[0, 1]).unwrap(), 1.0, "a clone is its own");
}

#[test]
fn in_place_allocates_nothing_and_out_of_place_does() {
    let allocator = host();
    let x = Buffer::<f32>::full(&allocator, &[100, 100], 2.0).unwrap();
    let before = allocator.stats();
    x.apply(|x| x * 3.0);
    assert_eq!(allocator.stats(), before);
    let y = x.map(|x| x + 1.0).unwrap();
    assert_eq!(allocator.memory_allocated(), 2 * 40_448);
    assert_eq!([x.get(&[9, 9]).unwrap(), y.get(&[9, 9]).unwrap()], [6.0, 7.0]);
}

#[test]
fn the_last_view_frees() {
    let allocator = host();
    let matrix = Buffer::<f32>::zeros(&allocator, &[100, 100]).unwrap();
    let column = matrix.transpose(0, 1).unwrap().slice(0, 3..4).unwrap();
    drop(matrix);
    assert_eq!(allocator.memory_allocated(), 40_448, "a view holds the whole storage");
    column.fill(1.0);
    drop(column);
    assert_eq!(allocator.memory_allocated(), 0);
}
