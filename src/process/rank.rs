//! The number of this process among those of a distributed run.
#![forbid(unsafe_code)]

use std::env;

/// The variables in which launchers pass the rank; the first that is a number counts.
///
/// Those of MPI are before Slurm's: under `mpirun` within a Slurm job, `SLURM_PROCID` is that of the one task that started
/// `mpirun`. Under `srun`, MPI's are Slurm's number too.
const VARIABLES: [&str; 7] = [
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
    "LOCAL_RANK",
];

/// Returns the rank of this process in a distributed run: the first number among the variables `RANK` (PyTorch's),
/// `OMPI_COMM_WORLD_RANK` (Open MPI), `PMI_RANK` (MPICH and its kin), `PALS_RANKID`, `FLUX_TASK_RANK`, `SLURM_PROCID` and
/// `LOCAL_RANK`. `None` outside of such a run.
#[must_use]
pub fn rank() -> Option<u64> {
    first(|name| env::var(name).ok())
}

fn first(variable: impl Fn(&str) -> Option<String>) -> Option<u64> {
    VARIABLES.iter().find_map(|name| variable(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_with_a_number_counts() {
        let of = |pairs: &[(&str, &str)]| {
            first(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("LOCAL_RANK", "1"), ("SLURM_PROCID", "9")]), Some(9));
        assert_eq!(of(&[("RANK", "../3"), ("PMI_RANK", "7"), ("LOCAL_RANK", "1")]), Some(7));
        assert_eq!(
            of(&[("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "5")]),
            Some(5),
            "mpirun within Slurm"
        );
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("PALS_RANKID", "3")]), Some(3));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("FLUX_TASK_RANK", "4")]), Some(4));
        assert_eq!(of(&[("RANK", "-1")]), None);
    }
}
