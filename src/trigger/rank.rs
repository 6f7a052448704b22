//! The number of this process among those of a distributed run.
#![forbid(unsafe_code)]

use std::env;

/// The variables in which launchers pass the rank; the first that is a number counts.
const VARIABLES: [&str; 5] = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK"];

/// Returns the rank of this process; 0 if no launcher passed one.
pub(super) fn rank() -> u64 {
    first(|name| env::var(name).ok())
}

fn first(variable: impl Fn(&str) -> Option<String>) -> u64 {
    VARIABLES.iter().find_map(|name| variable(name)?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_with_a_number_counts() {
        let of = |pairs: &[(&str, &str)]| {
            first(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[("LOCAL_RANK", "1"), ("SLURM_PROCID", "9")]), 9);
        assert_eq!(of(&[("RANK", "../3"), ("PMI_RANK", "7"), ("LOCAL_RANK", "1")]), 7);
    }
}
