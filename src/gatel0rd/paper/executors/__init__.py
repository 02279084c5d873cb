"""Where many runs are executed: on this machine, on a Ray cluster, or by SLURM."""
