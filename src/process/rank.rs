//! Returns the rank of this process in a distributed run.
#![forbid(unsafe_code)]

use super::environment;

/// The variables in which launchers pass the rank; the first one that contains a number counts.
///
/// Those of MPI come before Slurm's: under `mpirun` within a Slurm job, `SLURM_PROCID` belongs to the one task that
/// started `mpirun`. Under `srun`, MPI's variables have Slurm's number too.
///
/// Each has the variable for the number of ranks, where there is one. A Slurm batch script is a step of one task.
const VARIABLES: [(&str, &str); 7] = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PALS_RANKID", ""),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
];

/// Returns the rank of this process in a distributed run: the first number among the variables `RANK` (PyTorch's),
/// `OMPI_COMM_WORLD_RANK` (Open MPI), `PMI_RANK` (MPICH and its relatives), `PALS_RANKID`, `FLUX_TASK_RANK`,
/// `SLURM_PROCID` and `LOCAL_RANK`. `None` outside of such a run.
#[must_use]
pub fn rank() -> Option<u64> {
    first(|name| environment::text(name).ok()).map(|(rank, _)| rank)
}

/// Returns the number of ranks of the run in which this process has a [`rank`]; `None` outside of such a run, or if the
/// launcher does not report it.
#[must_use]
pub fn n_ranks() -> Option<u64> {
    first(|name| environment::text(name).ok())?.1
}

/// Returns the rank and the number of ranks.
fn first(variable: impl Fn(&str) -> Option<String>) -> Option<(u64, Option<u64>)> {
    let number = |name: &str| variable(name)?.trim().parse().ok();
    VARIABLES.iter().find_map(|(rank, count)| Some((number(rank)?, number(count))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_with_a_number_counts() {
        let of = |pairs: &[(&str, &str)]| {
            let found = |name: &str| pairs.iter().find(|(key, _)| *key == name);
            first(|name| found(name).map(|(_, value)| (*value).to_owned())).map(|(rank, _)| rank)
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

    #[test]
    fn the_number_of_ranks_is_of_the_same_launcher() {
        let of = |name: &str| match name {
            "SLURM_PROCID" => Some("2".to_owned()),
            "SLURM_STEP_NUM_TASKS" => Some("8".to_owned()),
            "WORLD_SIZE" => Some("16".to_owned()),
            _ => None,
        };
        assert_eq!(first(of), Some((2, Some(8))));
        assert_eq!(first(|name| of(name).filter(|_| name != "SLURM_STEP_NUM_TASKS")), Some((2, None)));
    }
}
