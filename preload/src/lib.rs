//! `libmemreel_preload.so`: records what any program asks of NVIDIA's driver, without a change to the program.
