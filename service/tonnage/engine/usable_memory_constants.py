"""What runtimes see of a device's memory. Made by benchmarks/derive_usable_memory.py.

CUDA: usable = driver total x (1 - CUDA_KEPT_SHARE) - kept GiB; on Windows none is kept.
Where only the label is known, driver total = label x a DRIVER_OF_LABEL ratio. Inline
ECC: GDDR boards with check bits in the same memory (T4, A10, A10G, L4, L40S, A40).
Elsewhere usable = ratio x total. Ratios are (low, expected, high); DISCRETE_OF_LABEL is
for any vendor.
"""

# 24 pairs of 14 devices
CUDA_KEPT_SHARE = 0.00170
CUDA_KEPT_GIB = (0.289, 0.438, 0.729)
"""Least, expected, most."""

# 10 pairs of 10 devices
CUDA_DRIVER_OF_LABEL = (0.9948, 0.9957, 1.0000)
# 5 pairs of 5 devices
CUDA_INLINE_ECC_DRIVER_OF_LABEL = (0.9371, 0.9371, 0.9375)
# 2 pairs of 2 devices
ROCM_OF_TOTAL = (0.9990, 0.9995, 0.9999)
# 31 pairs of 20 devices
DISCRETE_OF_LABEL = (0.9097, 0.9891, 1.0000)
# 5 pairs of 5 devices
APPLE_TO_32_GIB_OF_LABEL = (0.6656, 0.6666, 0.7438)
# 6 pairs of 6 devices
APPLE_ABOVE_32_GIB_OF_LABEL = (0.7499, 0.7500, 0.8400)
# 3 pairs of 1 device
AMD_APU_OF_LABEL = (0.4961, 0.7396, 0.9727)
# 2 pairs of 1 device
GB10_OF_LABEL = (0.8770, 0.9352, 0.9355)
# 2 pairs of 1 device
GB10_OF_DRIVER = (0.9378, 1.0000, 1.0000)
