"""HIP kernels compiled at run time through CuPy, for NVIDIA and AMD GPUs."""
