"""What llama.cpp prints of a case, summed over its devices: weights, cache, compute, total."""

from tonnage.engine.caches import StateCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import ZERO, Estimate, total
from tonnage.engine.memory.kv_cache import state_bytes
from tonnage.engine.memory.runtimes.llama_cpp_compute import halved_cache_bytes
from tonnage.engine.memory.runtimes.llama_cpp_ledger import compute_estimate
from tonnage.engine.memory.runtimes.llama_cpp_terms import (
    STATE_BITS,
    layer_cache_bytes,
    output_bytes,
    pinned_weights,
    placement,
    split,
)
from tonnage.engine.memory.weights import layer_bytes

MOST_EMBEDDING_BITS, LEAST_EMBEDDING_BITS = 8.5, 2.625
"""What GGUF files of few bits store their token embedding with: Q8_0 to Q2_K."""


def weights_on_devices(case: InferenceCase) -> int:
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    placed = placement(case)
    runs = split(case.model, placed.layers, case.count)
    amount = sum(layers[name] for names in runs for name in names)
    return amount + (output_bytes(case) if placed.output else 0)


def cache_bytes(case: InferenceCase) -> tuple[int, int]:
    """Of token caches (the KV buffer) and of states (a buffer of its own), over all layers."""
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    whole = states = 0
    for name, count in case.model.layer_counts.items():
        whole += count * layer_cache_bytes(case, name, context, sequences)
        for cache in case.model.layer_caches[name]:
            if isinstance(cache, StateCache):
                states += count * sequences * state_bytes(cache, 1, STATE_BITS, STATE_BITS)
    return whole - states, states


def compute_over_devices(case: InferenceCase) -> Estimate:
    tokens = case.workload.context_tokens * case.workload.concurrent_sequences
    return total([compute_estimate(case, device, tokens) for device in range(case.count)])


def total_of_buffers(case: InferenceCase, *, measured: bool) -> Estimate:
    """What a log adds up; or what a device reports, but for the backend's context."""
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    placed = case.model.order[case.model.layer_count - placement(case).layers :]
    fixed = weights_on_devices(case) + sum(
        placed.count(name) * layer_cache_bytes(case, name, context, sequences)
        for name in dict.fromkeys(placed)
    )
    if measured:
        tokens = case.workload.context_tokens * case.workload.concurrent_sequences
        fixed += halved_cache_bytes(case, case.model.order, tokens) * case.count
        fixed += pinned_weights(case, placement(case))
    return Estimate.exact(fixed) + compute_over_devices(case)


def embedding_in_doubt(case: InferenceCase) -> Estimate:
    """How much more or less than taken of a file of known size is not on the devices."""
    if case.model.tied_embeddings or not placement(case).output:
        return ZERO
    bits = case.weights.encoding.embedding_bits(tied=False)
    bytes_of_bit = case.model.embedding_parameters / 8
    return Estimate(
        round(min(bits - MOST_EMBEDDING_BITS, 0) * bytes_of_bit),
        0,
        round(max(bits - LEAST_EMBEDDING_BITS, 0) * bytes_of_bit),
    )
