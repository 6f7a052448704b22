//! Settings texts: what they mean, and where they go wrong.

use memreel::{Buffer, Reel, Settings, device::Limit, recorder::Recording};

const MIB: u64 = 1 << 20;

fn refusal(text: &str) -> String {
    let error = text.parse::<Settings>().unwrap_err();
    assert!(error.is_invalid_option(), "{error}");
    error.to_string()
}

#[test]
fn every_option_is_read() {
    let text = " expandable_segments:True, max_split_size_mb : 128,max_non_split_rounding_mb:64,large_segment_size_mb:32,\
                roundup_power2_divisions:[256:1,512:2,1024:4,>:8],garbage_collection_threshold:0.8,\
                per_process_memory_fraction:0.5,release_lock_on_cudamalloc:True,backend:native,\
                pinned_num_register_threads:8,graph_capture_record_stream_reuse:False,";
    let settings: Settings = text.parse().unwrap();
    assert!(settings.expandable_segments && settings.release_lock_on_device_alloc);
    assert_eq!(settings.max_split_bytes, Some(128 * MIB));
    assert_eq!(settings.max_non_split_rounding_bytes, 64 * MIB);
    assert_eq!(settings.large_segment_bytes, 32 * MIB);
    assert_eq!(settings.roundup_power2_divisions, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]);
    assert_eq!((settings.garbage_collection_threshold, settings.per_process_memory_fraction), (0.8, 0.5));
    assert_eq!(settings.conf, text);
    assert_eq!("".parse::<Settings>().unwrap(), Settings::default());
}

#[test]
fn the_large_segment_size_bounds_others_wherever_it_stands() {
    let settings: Settings = "max_split_size_mb:12,large_segment_size_mb:12".parse().unwrap();
    assert_eq!(settings.max_split_bytes, Some(12 * MIB));
    assert_eq!(settings.max_non_split_rounding_bytes, 12 * MIB);
    assert!(
        refusal("max_split_size_mb:12").contains("a number from 20 on instead of \"12\" at character 18")
    );
}

#[test]
fn a_change_resets_some_and_keeps_the_rest() {
    let before: Settings =
        "expandable_segments:True,large_segment_size_mb:32,max_split_size_mb:64,roundup_power2_divisions:4,\
         garbage_collection_threshold:0.5,max_non_split_rounding_mb:64"
            .parse()
            .unwrap();
    let after = before.updated("release_lock_on_cudamalloc:True").unwrap();
    assert!(after.expandable_segments);
    assert_eq!((after.large_segment_bytes, after.max_split_bytes), (32 * MIB, None));
    assert_eq!((after.roundup_power2_divisions, after.garbage_collection_threshold), ([0; 16], 0.0));
    assert_eq!(after.max_non_split_rounding_bytes, 32 * MIB);
}

#[test]
fn nonsense_is_refused_with_its_place() {
    for (text, part) in [
        (
            "max_split:1",
            "unknown setting \"max_split\" at character 0 of \"max_split:1\"; the settings are expandable_segments, ",
        ),
        (
            "backend:native,oops:1",
            "settings: unknown setting \"oops\" at character 15 of \"backend:native,oops:1\"; the ",
        ),
        (
            "max_split_size_mb:x",
            "max_split_size_mb takes a number from 20 on instead of \"x\" at character 18 of ",
        ),
        ("max_split_size_mb", "expected : instead of \"the end\""),
        ("expandable_segments:true", "True or False instead of \"true\" at character 20"),
        ("expandable_segments", ": instead of \"the end\" at character 19"),
        ("expandable_segments:", "a value instead of \"the end\""),
        ("expandable_segments,True", ": instead of \",\" at character 19"),
        ("expandable_segments:True max_split_size_mb:30", ", instead of \":\" at character 42"),
        ("max_split_size_mb:30;x", "instead of \"30;x\" at character 18"),
        ("max_split_size_mb:-1", "instead of \"-1\""),
        ("max_split_size_mb:99999999999999999999", "instead of \"99999999999999999999\""),
        ("max_split_size_mb:18446744073709551615", "instead of"),
        ("max_split_size_mb:[1:2]", "instead of \"a list\""),
        ("large_segment_size_mb:10", "a number above 10"),
        ("garbage_collection_threshold:1.0", "a number between 0.0 and 1.0"),
        ("garbage_collection_threshold:NaN", "a number between 0.0 and 1.0"),
        ("per_process_memory_fraction:1.5", "a number from 0.0 to 1.0"),
        ("roundup_power2_divisions:3", "a power of two"),
        ("roundup_power2_divisions:0", "a power of two"),
        ("roundup_power2_divisions:[3:4]", "a power of two in MiB, or > instead of \"3\" at character 26"),
        ("roundup_power2_divisions:[1:3]", "a power of two, or 0 instead of \"3\" at character 28"),
        ("roundup_power2_divisions:[1:2", ", instead of \"the end\""),
        ("roundup_power2_divisions:[]", "a size in MiB or > instead of \"]\""),
        ("backend:cudaMallocAsync", "native instead of \"cudaMallocAsync\""),
        (",expandable_segments:True", "an option's name instead of \",\" at character 0"),
        ("pinned_num_register_threads:3", "a power of two up to 128"),
    ] {
        let message = refusal(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn the_environment_is_read_in_order() {
    let read = |set: &[(&str, &str)]| {
        let set: Vec<(String, String)> = set.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Settings::from_variables(|name| set.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
    };
    let ours = ("MEMREEL_ALLOC_CONF", "large_segment_size_mb:30");
    let cuda = ("PYTORCH_CUDA_ALLOC_CONF", "large_segment_size_mb:40");
    let torch = ("PYTORCH_ALLOC_CONF", "large_segment_size_mb:50");
    for (set, mib) in [(&[torch, cuda, ours][..], 30), (&[torch, cuda], 40), (&[torch], 50), (&[], 20)] {
        assert_eq!(read(set).unwrap().large_segment_bytes, mib * MIB);
    }
    let error = read(&[("MEMREEL_ALLOC_CONF", "oops:1")]).unwrap_err().to_string();
    assert!(error.contains("MEMREEL_ALLOC_CONF") && error.contains("oops"), "{error}");
    let error = read(&[("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:1")]).unwrap_err().to_string();
    assert!(error.contains("PYTORCH_CUDA_ALLOC_CONF") && error.contains("max_split_size_mb"), "{error}");
}

/// Each release of PyTorch adds options, which do not concern memreel.
#[test]
fn options_that_are_unknown_in_variables_of_pytorch_are_left_out() {
    for unknown in [
        "oops:1",
        "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:1",
        "expandable_segments_reserve_by_class:[weights:0.5,cache:40G]",
        "throw_on_cudamalloc_oom:True,pinned_free_catch_all:True,expandable_segments_reserve:40G",
    ] {
        let text = format!("expandable_segments:True,{unknown},max_split_size_mb:64");
        for name in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"] {
            let read = Settings::from_variables(|asked| (asked == name).then(|| text.clone())).unwrap();
            assert!(read.expandable_segments && read.max_split_bytes == Some(64 * MIB), "{text}");
        }
        assert!(text.parse::<Settings>().unwrap_err().is_invalid_option(), "{text}");
    }
}

#[test]
fn expandable_segments_are_real_memory_on_the_host() {
    let reel = Reel::builder()
        .device(Limit::new(memreel::device::Host::new(), 200 * MIB))
        .settings("expandable_segments:True".parse().unwrap())
        .history(Recording::all())
        .build()
        .unwrap();
    let allocator = reel.allocator(0).unwrap();
    let first = Buffer::<u64>::full(allocator, &[1 << 20], 1).unwrap();
    let second = Buffer::<u64>::full(allocator, &[5 << 20], 2).unwrap();
    assert_eq!(allocator.memory_reserved(), 60 * MIB);
    assert_eq!(
        second.allocation().address().0 - first.allocation().address().0,
        8 * MIB,
        "one after the other"
    );
    drop(first);
    let third = Buffer::<u64>::full(allocator, &[1 << 20], 3).unwrap();
    assert_eq!(
        third.to_vec().iter().sum::<u64>() + second.to_vec().iter().sum::<u64>(),
        (3 << 20) + (10 << 20)
    );
    drop((second, third));
    reel.empty_cache().unwrap();
    assert_eq!(allocator.memory_reserved(), 0);
    let snapshot = reel.snapshot();
    let maps: Vec<_> = snapshot.device_traces[0].iter().map(|e| e.action.unwrap().name()).collect();
    let expected = [
        "segment_map",
        "alloc",
        "segment_map",
        "alloc",
        "free_requested",
        "free_completed",
        "alloc",
        "free_requested",
        "free_completed",
        "free_requested",
        "free_completed",
        "segment_unmap",
    ];
    assert_eq!(maps, expected);
    let again = Buffer::<u64>::zeros(allocator, &[1 << 20]).unwrap();
    assert!(reel.snapshot().segments[0].is_expandable);
    memreel::pickle::save(&reel.snapshot(), crate::written("expandable.pickle")).unwrap();
    drop(again);
}
