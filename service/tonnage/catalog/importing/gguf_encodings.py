"""In which types does this very GGUF file store each of its parts?

A file type names a mix; which tensors have which type differs by tool, version and model. Tensor
names are those of llama.cpp's ``llama-arch.cpp``.
"""

import re
from collections import defaultdict
from typing import get_args

from tonnage.engine.model import ModelArchitecture
from tonnage.engine.modules import Role
from tonnage.engine.precision import RoleBits, WeightEncoding

from .gguf import Header, Tensor
from .sizes import checkpoint_bytes

NAMED: tuple[tuple[str, Role], ...] = (
    (r"nextn\.", "prediction"),
    (r"\.bias$", "bias"),
    (r"^token_embd\.", "embedding"),
    (r"^output\.", "output_head"),
    (r"norm", "norm"),
    (r"indexer", "sparse_index"),
    (r"attn_(q_a|kv_a_mqa)\.", "latent_down"),
    (r"attn_(kv_b|k_b|v_b)\.", "latent_up"),
    (r"attn_(q|q_b|qkv)\.", "query"),
    (r"attn_k\.", "key"),
    (r"attn_v\.", "value"),
    (r"attn_output\.", "attention_output"),
    (r"ffn_(gate|up)_exps\.", "expert_gate_up"),
    (r"ffn_down_exps\.", "expert_down"),
    (r"_shexp\.", "shared_expert"),
    (r"ffn_gate_inp", "router"),
    (r"ffn_(gate|up)\.", "gate_up"),
    (r"ffn_down\.", "down"),
    (r"ssm_(in|out|x|dt|ba|beta_alpha)\.|attn_gate\.", "state_space"),
    (r"ssm_|shortconv", "state_space_small"),
)
ROLES = tuple((re.compile(pattern), role) for pattern, role in NAMED)
WIDEST_DIFFERENCE = 0.02


def gguf_encoding(header: Header, architecture: ModelArchitecture) -> WeightEncoding | None:
    """Bits of each role on average; None where they do not add up to the file's size.

    They do not where a tensor is of a part that the architecture does not have.
    """
    elements: dict[Role, int] = defaultdict(int)
    sizes: dict[Role, int] = defaultdict(int)
    for tensor in header.tensors:
        role = _role(tensor)
        if role is not None:
            elements[role] += tensor.elements
            sizes[role] += 8 * tensor.bytes
    matrices = [role for role in elements if role not in ("norm", "bias", "router")]
    if not matrices:
        return None
    middle = sum(sizes[r] for r in matrices) / sum(elements[r] for r in matrices)
    bits = {role: round(sizes[role] / elements[role], 9) for role in elements if elements[role]}
    if "query" in bits and "key" not in bits:
        bits["key"] = bits["value"] = bits["query"]
    if architecture.tied_embeddings:
        bits.pop("output_head", None)
    known = {role: bits[role] for role in get_args(Role) if role in bits}
    tied = bits.get("embedding") if architecture.tied_embeddings else None
    found = WeightEncoding(
        bits_per_weight=round(middle, 9), except_roles=RoleBits(**known, tied_embedding=tied)
    )
    stored = sum(tensor.bytes for tensor in header.tensors)
    expected = checkpoint_bytes(architecture, found)
    return found if abs(expected - stored) <= WIDEST_DIFFERENCE * stored else None


def _role(tensor: Tensor) -> Role | None:
    return next((role for pattern, role in ROLES if pattern.search(tensor.name)), None)
