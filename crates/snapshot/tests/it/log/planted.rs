//! Logs with a planted cause, made of each program's own form, and the answer to each.

use memreel_snapshot::{analysis::oom::LoggedOom, log::Program};

use super::{
    GIB, MIB, last,
    torch::{Figures, message, text},
};

/// A device of 80 GiB with 70 GiB in use.
fn figures() -> Figures {
    Figures {
        asked: 2 * GIB,
        capacity: 80 * GIB,
        free: GIB,
        process: Some(79 * GIB),
        allocated: 77 * GIB,
        unallocated: 200 * MIB,
        ..Figures::default()
    }
}

struct Planted {
    what: &'static str,
    log: String,
    program: Program,
    /// The kinds of the causes, in their order.
    causes: &'static [&'static str],
    /// What the advice of the first has.
    advice: &'static str,
    /// What the releases are, as printed.
    releases: Option<&'static str>,
}

fn planted() -> Vec<Planted> {
    let full = figures();
    let fragmented =
        Figures { asked: GIB, allocated: 60 * GIB, unallocated: 18 * GIB, free: 100 * MIB, ..full.clone() };
    let limited = Figures {
        asked: 250 * MIB,
        free: 74 * GIB,
        process: Some(5 * GIB),
        allowed: Some(4 * GIB),
        allocated: 3900 * MIB,
        unallocated: 100 * MIB,
        ..full.clone()
    };
    let refused = Figures { allowed: None, ..limited.clone() };
    let occupied = Figures {
        others: vec![(7, 30 * GIB), (8, 2 * GIB)],
        process: Some(47 * GIB),
        allocated: 45 * GIB,
        unallocated: 100 * MIB,
        ..full.clone()
    };
    let in_container = Figures { process: None, others: vec![(4711, 79 * GIB)], ..full.clone() };
    let graphs = Figures {
        asked: GIB,
        allocated: 77 * GIB,
        private: 46 * GIB,
        unallocated: 100 * MIB,
        free: 100 * MIB,
        ..full.clone()
    };
    let torch = |what, release, figures: &Figures, causes, advice, releases| Planted {
        what,
        log: message(release, figures),
        program: Program::Torch,
        causes,
        advice,
        releases: Some(releases),
    };
    let other = |what, log: &str, program, causes, advice| Planted {
        what,
        log: log.to_owned(),
        program,
        causes,
        advice,
        releases: None,
    };
    vec![
        torch("2.0 full", 0, &full, &["full"], "a smaller batch", "PyTorch 2.0 or earlier"),
        torch(
            "2.0 fragmented",
            0,
            &fragmented,
            &["fragmented"],
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:1023 keeps",
            "PyTorch 2.0 or earlier",
        ),
        torch(
            "2.1 fragmented",
            1,
            &fragmented,
            &["fragmented"],
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,",
            "PyTorch 2.1",
        ),
        torch(
            "2.3 limited",
            3,
            &limited,
            &["limited"],
            "set_per_process_memory_fraction(0.06))",
            "PyTorch 2.2 to 2.4",
        ),
        torch("2.6 occupied", 6, &occupied, &["occupied"], "end these processes", "PyTorch 2.5 or later"),
        torch("2.6 refused", 6, &refused, &["limited"], "retry the request", "PyTorch 2.5 or later"),
        torch("2.7 in a container", 7, &in_container, &["full"], "a smaller batch", "PyTorch 2.5 or later"),
        torch("2.10 graphs", 10, &graphs, &["free elsewhere"], "graphs share a pool", "PyTorch 2.9 or later"),
        torch(
            "2.11 fragmented",
            11,
            &fragmented,
            &["fragmented"],
            "PYTORCH_ALLOC_CONF=expandable_segments:True,",
            "PyTorch 2.11 or later",
        ),
        torch(
            "2.15 limited",
            15,
            &limited,
            &["limited"],
            "or per_process_memory_fraction in PYTORCH_ALLOC_CONF",
            "PyTorch 2.11 or later",
        ),
        other(
            "XPU",
            &format!("torch.OutOfMemoryError: {}", text(12, "XPU", &fragmented)),
            Program::Torch,
            &["fragmented"],
            "",
        ),
        other(
            "JAX, full pool",
            "Limit:            4928097484\nInUse:            4848542720\nMaxInUse:         4848542720\n\
             XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 158982400 bytes.\n\
             BufferAssignment stats:\n   parameter allocation:   56.25MiB\n   total allocation:  112.50MiB\n",
            Program::Xla,
            &["full"],
            "XLA_PYTHON_CLIENT_MEM_FRACTION",
        ),
        other(
            "JAX, pool in pieces",
            "Limit:            4928097484\nInUse:            2248542720\n\
             RESOURCE_EXHAUSTED: Failed to allocate request for 1.50GiB (1610612736B) on device ordinal 0",
            Program::Xla,
            &["fragmented"],
            "TF_GPU_ALLOCATOR",
        ),
        other(
            "TensorFlow",
            "Limit:                  8000000000\nInUse:                  7900000000\n\
             ResourceExhaustedError: OOM when allocating tensor with shape[256,112,112,64] and type float on \
             /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
            Program::TensorFlow,
            &["full"],
            "a smaller batch",
        ),
        other(
            "CuPy, limited",
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 25,600,000 bytes (allocated so far: 3,635,267,072 bytes, \
             limit set to: 3,640,000,000 bytes).",
            Program::CuPy,
            &["limited"],
            "set_limit(size=3660867072)",
        ),
        other(
            "CuPy, without figures of the device",
            "OutOfMemoryError: out of memory to allocate 1200000000 bytes (total 7204800000 bytes)",
            Program::CuPy,
            &[],
            "",
        ),
        other(
            "llama.cpp",
            "using device CUDA0 (NVIDIA GeForce RTX 3090) - 23000 MiB free\nload_tensors: CUDA0 model buffer size = 18000.00 MiB\n\
             ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 0: cudaMalloc failed: out of memory\n\
             ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 10345253120\n",
            Program::Ggml,
            &["full"],
            "--n-gpu-layers",
        ),
        other(
            "MPS",
            "RuntimeError: MPS backend out of memory (MPS allocated: 17.68 GB, other allocations: 3.95 MB, max allowed: 18.13 GB). \
             Tried to allocate 1024.00 MB on private pool.",
            Program::Mps,
            &["limited"],
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO",
        ),
    ]
}

#[test]
fn each_log_has_its_planted_cause() {
    for planted in planted() {
        let message = last(&planted.log);
        let logged = LoggedOom::new(&message);
        let causes = logged.causes();
        let kinds: Vec<_> = causes.iter().map(|cause| cause.kind.name()).collect();
        let what = planted.what;
        assert_eq!((message.program, &*kinds), (planted.program, planted.causes), "{what}: {causes:#?}");
        let advice = causes.first().and_then(|cause| cause.advice.clone()).unwrap_or_default();
        assert!(advice.contains(planted.advice), "{what}: {advice}");
        if let Some(releases) = planted.releases {
            assert_eq!(logged.releases().as_deref(), Some(releases), "{what}");
        }
        assert!(message.unread.is_empty() && !message.is_cut, "{what}: {message:?}");
    }
}

#[test]
fn every_figure_is_read() {
    let planted = Figures {
        device: 3,
        allowed: Some(70 * GIB),
        others: vec![(99, 3 * GIB / 2)],
        private: 5 * GIB,
        ..figures()
    };
    for release in 1..=15 {
        let read = last(&message(release, &planted));
        assert_eq!(
            (read.device, read.requested_bytes, read.capacity_bytes, read.free_bytes),
            (Some(3), planted.asked, Some(planted.capacity), Some(planted.free)),
            "2.{release}"
        );
        assert_eq!(
            (
                read.process_bytes,
                read.limit_bytes,
                read.allocated_bytes,
                read.private_pool_bytes,
                read.unallocated_bytes
            ),
            (
                planted.process,
                planted.allowed,
                Some(planted.allocated),
                Some(planted.private),
                Some(planted.unallocated)
            ),
            "2.{release}"
        );
        assert_eq!((read.others[0].pid, read.others[0].bytes), planted.others[0], "2.{release}");
    }
    // 2.0 has other words and no processes.
    let old = last(&message(0, &Figures { private: 0, others: Vec::new(), ..planted.clone() }));
    assert_eq!(old.capacity_bytes.zip(old.free_bytes), Some((planted.capacity, planted.free)));
    let near = |bytes: Option<u64>, of: u64| bytes.unwrap().abs_diff(of) <= 2 * old.rounding_bytes;
    assert!(near(old.unallocated_bytes, planted.unallocated) && near(old.limit_bytes, 70 * GIB), "{old:?}");
}

/// The parts of a message add up to the device.
#[test]
fn the_parts_are_summed() {
    let planted = Figures {
        process: Some(47 * GIB),
        allocated: 45 * GIB,
        unallocated: GIB,
        others: vec![(7, 20 * GIB)],
        ..figures()
    };
    let found = last(&message(6, &planted));
    let figures = LoggedOom::new(&found).figures();
    let value = |name: &str| figures.iter().find(|(found, _)| found == name).map(|(_, value)| &**value);
    assert_eq!(value("reserved"), Some("46.00 GiB"));
    assert_eq!(value("outside its allocator"), Some("1.00 GiB: context, libraries"));
    assert_eq!(value("process 7"), Some("20.00 GiB"));
    assert!(
        value("not in these figures").is_some_and(|value| value.starts_with("12.00 GiB: the driver")),
        "{figures:?}"
    );
    let in_container = Figures { process: None, others: vec![(7, 20 * GIB), (4711, 47 * GIB)], ..planted };
    let found = last(&message(6, &in_container));
    let figures = LoggedOom::new(&found).figures();
    let row = figures.iter().find(|(name, _)| name == "process 4711").unwrap();
    assert!(row.1.starts_with("47.00 GiB: probably this one"), "{row:?}");
}

/// memreel's own errors are of these forms too.
#[test]
fn errors_of_memreel_are_read() {
    let reel = memreel::Reel::builder().device(memreel::device::Simulated::new(60 << 20)).build().unwrap();
    let _blocks = (reel.alloc(9 << 20).unwrap(), reel.alloc(12 << 20).unwrap());
    let error = reel.alloc(30 << 20).unwrap_err();
    let figures = error.out_of_memory().unwrap();
    for (text, program) in
        [(figures.to_string(), Program::Memreel), (figures.torch_message(), Program::Torch)]
    {
        let message = last(&text);
        assert_eq!((message.program, message.capacity_bytes), (program, Some(60 << 20)), "{text}");
        assert_eq!(message.reserved_bytes(), Some(figures.reserved_bytes), "{text}");
        let causes = LoggedOom::new(&message).causes();
        assert_eq!(
            causes[0].kind.name(),
            figures.verdict.as_ref().map(|verdict| verdict.text.split(':').next().unwrap()).unwrap(),
            "{text}"
        );
    }
}
