"""GPU kernels of the gated layer's recurrence, written in Triton. Nothing here is imported before it is needed."""
