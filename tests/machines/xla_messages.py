"""Messages of XLA that the package recognises."""

OUT_OF_MEMORY = (
    'NOT_FOUND: Failed to get configs for 3 instructions: RESOURCE_EXHAUSTED: Out of '
    'memory while trying to allocate 38.30GiB with allocator GPU_0_bfc on device 0.'
)
"""What the compiler of a GPU says if none of the kernels that it tries fits."""
