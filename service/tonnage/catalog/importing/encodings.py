"""What does this very checkpoint leave unquantized? From its tensors' names, or its configuration.

Publishers of one format keep different modules in 16 bits. A tensor that is quantized has scales
beside it; where no names were sent, ``ignore`` (compressed-tensors, ModelOpt: ``exclude_modules``)
and ``modules_to_not_convert`` say which modules were left alone.
"""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from tonnage.engine.model import ModelArchitecture
from tonnage.engine.modules import Role
from tonnage.engine.precision import RoleBits, WeightEncoding

UNQUANTIZED_BITS = 16.0
MOST_LAYERS, MOST_GLOBS = 512, 64
"""Beyond these the configuration is passed over: no checkpoint needs them."""
SCALES = re.compile(
    r"\.(weight_scale|weight_scale_inv|weight_packed|scales|qweight|SCB|weight\.absmax)$"
)
PLAIN = re.compile(r"\.weight$")
TEXT_PART = re.compile(r"\blanguage_model\\?\.")
NAMED: tuple[tuple[str, tuple[Role, ...]], ...] = (
    (r"(^|\.)(mtp|nextn)", ("prediction",)),
    (r"(vision|visual|audio)", ("encoder",)),
    (r"experts?\.\d+\.(gate_proj|up_proj|gate_up_proj|w1|w3)$", ("expert_gate_up",)),
    (r"experts?\.\d+\.(down_proj|w2)$", ("expert_down",)),
    (r"experts\.gate_up_proj$", ("expert_gate_up",)),
    (r"experts\.down_proj$", ("expert_down",)),
    (r"shared_experts?\.", ("shared_expert",)),
    (r"indexer\.", ("sparse_index",)),
    (r"(q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj)$", ("latent_down",)),
    (r"kv_b_proj$", ("latent_up",)),
    (r"(q_proj|q_b_proj)$", ("query",)),
    (r"k_proj$", ("key",)),
    (r"v_proj$", ("value",)),
    (r"qkv_proj$", ("query", "key", "value")),
    (r"self_attn\.(o_proj|dense)$", ("attention_output",)),
    (r"(linear_attn|mamba|mixer)\.(in_proj\w*|out_proj)$", ("state_space",)),
    (r"mlp\.(gate_proj|up_proj|gate_up_proj)$", ("gate_up",)),
    (r"mlp\.down_proj$", ("down",)),
    (r"lm_head$", ("output_head",)),
)
ROLES = tuple((re.compile(pattern), roles) for pattern, roles in NAMED)
SAMPLES: dict[Role, str] = {
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "attention_output": "self_attn.o_proj",
    "latent_down": "self_attn.kv_a_proj_with_mqa",
    "latent_up": "self_attn.kv_b_proj",
    "sparse_index": "self_attn.indexer.wq_b",
    "state_space": "linear_attn.in_proj_qkv",
    "gate_up": "mlp.gate_proj",
    "down": "mlp.down_proj",
    "expert_gate_up": "mlp.experts.0.gate_proj",
    "expert_down": "mlp.experts.0.down_proj",
    "shared_expert": "mlp.shared_experts.gate_proj",
}
"""A module of each role inside a layer, by the name that most configurations use."""


def own_encoding(
    usual: WeightEncoding | None,
    architecture: ModelArchitecture,
    config: dict[str, Any],
    names: Iterable[str],
) -> WeightEncoding | None:
    """The encoding of this checkpoint; None where nothing says more than the format does."""
    if usual is None or usual.bits_per_weight >= UNQUANTIZED_BITS:
        return None
    shares = _by_names(names) or _by_configuration(architecture, config)
    bits = _bits_per_weight(usual, config)
    if not shares and bits == usual.bits_per_weight:
        return None
    own = {
        role: round(share * bits + (1 - share) * UNQUANTIZED_BITS, 6)
        for role, share in shares.items()
    }
    kept = msgspec.structs.asdict(usual.except_roles)
    kept.update({role: None if amount == bits else amount for role, amount in own.items()})
    return WeightEncoding(
        bits_per_weight=bits, except_roles=RoleBits(**kept), group_size=usual.group_size
    )


def _by_names(names: Iterable[str]) -> dict[Role, float]:
    """The share of each role's tensors that have scales beside them."""
    scaled = {SCALES.sub("", name) for name in names if SCALES.search(name)}
    if not scaled:
        return {}
    seen: dict[Role, list[bool]] = defaultdict(list)
    for base in {PLAIN.sub("", name) for name in names if PLAIN.search(name)} | scaled:
        for role in _roles(base):
            seen[role].append(base in scaled)
    return {role: sum(found) / len(found) for role, found in seen.items()}


def _roles(base: str) -> tuple[Role, ...]:
    return next((roles for pattern, roles in ROLES if pattern.search(base)), ())


def _by_configuration(architecture: ModelArchitecture, config: dict[str, Any]) -> dict[Role, float]:
    """The share of the layers in which a role's module is not named as left alone."""
    left = _left_alone(config)
    layers = architecture.layer_count
    if not left or layers > MOST_LAYERS:
        return {}
    whole = frozenset(name for name in left if "*" not in name and not name.startswith("re:"))
    globs = [_glob(name) for name in left if name not in whole][:MOST_GLOBS]
    found = {}
    for role, sample in SAMPLES.items():
        kept = sum(
            _is_left(f"model.layers.{layer}.{sample}", whole, globs) for layer in range(layers)
        )
        if kept:
            found[role] = 1 - kept / layers
    return found


def _is_left(module: str, whole: frozenset[str], globs: list[re.Pattern[str]]) -> bool:
    """A name in full, or of a run of its parts, or a glob's."""
    parts = module.split(".")
    runs = (
        ".".join(parts[start:end])
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    )
    return any(run in whole for run in runs) or any(glob.match(module) for glob in globs)


def _scheme(config: dict[str, Any]) -> dict[str, Any]:
    """The quantization that a configuration states, of the whole model or of its text part."""
    for part in (config, config.get("text_config")):
        if isinstance(part, dict) and isinstance(part.get("quantization_config"), dict):
            found: dict[str, Any] = part["quantization_config"]
            return found
    return {}


def _left_alone(config: dict[str, Any]) -> list[str]:
    """Names and patterns, those inside a multimodal model as if it were text alone."""
    scheme = _scheme(config)
    named = [
        value
        for key in ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
        for value in (scheme.get(key) or ())
        if isinstance(scheme.get(key), list)
    ]
    short = [name for name in named if isinstance(name, str) and 0 < len(name) <= 500][:5000]
    return [TEXT_PART.sub("", name) for name in short]


def _glob(pattern: str) -> re.Pattern[str]:
    """Of a glob, or of a regular expression after ``re:`` as a glob of its plain parts.

    A caller's expression is never compiled as it is: it could take for ever.
    """
    if pattern.startswith("re:"):
        plain = re.sub(r"\[\^?[^\]]*\][*+]?|\\d[+*]?|\.[*+]\??", "*", pattern[3:])
        pattern = plain.replace("\\", "").strip("^$") + "*"
    return re.compile(fnmatch.translate(re.sub(r"\*+", "*", pattern)))


def _bits_per_weight(usual: WeightEncoding, config: dict[str, Any]) -> float:
    """With the group size that the configuration states: a 16-bit scale for each group."""
    group = _group_size(_scheme(config))
    if usual.group_size is None or group is None or group == usual.group_size:
        return usual.bits_per_weight
    stored = float(int(usual.bits_per_weight))
    return stored + (usual.bits_per_weight - stored) * usual.group_size / group


def _group_size(scheme: dict[str, Any]) -> int | None:
    direct = scheme.get("group_size")
    groups = scheme.get("config_groups")
    if direct is None and isinstance(groups, dict):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, dict) else None
            if isinstance(weights, dict):
                direct = weights.get("group_size")
    return direct if type(direct) is int and 1 <= direct <= 10_000 else None
