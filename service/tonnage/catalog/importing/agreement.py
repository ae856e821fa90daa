"""Do the parts of what was sent agree? Each finding is a sentence."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import WeightEncoding

from .checkpoints import counted
from .errors import UnreadableFile
from .ggml_types import FILE_TYPES, GUESSED
from .gguf import Header
from .number_formats import PLAIN
from .sizes import checkpoint_bytes, encoding_of, gguf_formats

WIDEST_COUNT_DIFFERENCE = 0.01
WIDEST_BYTES_DIFFERENCE = 0.02
FOUR_BITS = frozenset({"awq", "gptq", "mxfp4", "nvfp4", "w4a16", "bnb-nf4", "bnb-nf4-double"})
HEADS = ("lm_head.weight", "embed_out.weight")


class Published(NamedTuple):
    """What the checkpoint's own files say."""

    parameters: int | None = None
    bytes: int | None = None
    names: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()


def published(
    index: dict[str, Any] | None, header: dict[str, Any] | None, form: str, bits: Any
) -> Published:
    """The header counts where it has every tensor that the index lists; else the index does."""
    names, size = _index(index) if index is not None else (frozenset(), None)
    if header is not None:
        plain = form in PLAIN.values()
        stated = bits if type(bits) is int and 1 <= bits <= 8 else None
        found = counted(header, None if plain else stated or (4 if form in FOUR_BITS else 8))
        if names <= found.names:
            return Published(found.parameters, found.bytes, found.names, found.unknown)
    encoding = encoding_of(form)
    if size is None or encoding is None or form not in PLAIN.values():
        return Published(None, size, names)
    return Published(round(size * 8 / encoding.bits_per_weight), size, names)


def _index(index: dict[str, Any]) -> tuple[frozenset[str], int | None]:
    pointer = "/safetensors_index"
    listed = index.get("weight_map", {})
    if not isinstance(listed, dict):
        raise UnreadableFile("weight_map is not an object", pointer=f"{pointer}/weight_map")
    about = index.get("metadata", {})
    size = about.get("total_size") if isinstance(about, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if size is not None and (not isinstance(size, int) or not 0 < size < 2**53):
        raise UnreadableFile(
            "the total size is not a number of bytes", pointer=f"{pointer}/metadata/total_size"
        )
    return frozenset(listed), size


def without_tied_head(architecture: ModelArchitecture, said: Published) -> Published:
    """Some checkpoints store a tied head once more; a runtime loads it once."""
    if not (architecture.tied_embeddings and has_head(said.names) and said.parameters):
        return said
    return said._replace(parameters=max(said.parameters - architecture.embedding_parameters, 0))


def has_head(names: Iterable[str]) -> bool:
    return any(name.endswith(HEADS) for name in names)


def checkpoint_findings(
    architecture: ModelArchitecture,
    form: str,
    said: Published,
    own: WeightEncoding | None = None,
) -> Iterator[str]:
    """``own``: what the checkpoint stores its parts in, where that differs from the format."""
    if said.unknown:
        yield (
            f"{len(said.unknown)} tensors of whole numbers are not counted, as no known scheme "
            f"explains them: {', '.join(name[:100] for name in said.unknown[:3])}"
        )
    counts = said
    if architecture.tied_embeddings and has_head(said.names):
        yield "the checkpoint stores an output head that the configuration ties to the embedding"
        counts = without_tied_head(architecture, said)
    disagreements = [
        *count_findings(architecture, counts.parameters),
        *_bytes_findings(architecture, form, said, own),
    ]
    yield from disagreements


def count_findings(architecture: ModelArchitecture, parameters: int | None) -> Iterator[str]:
    """A checkpoint may leave out the parts that are not loaded by default."""
    if not parameters or _near(
        parameters, (architecture.stored_parameters, architecture.parameters)
    ):
        return
    apart = (architecture.stored_parameters - parameters) / parameters
    yield (
        f"the architecture has {architecture.stored_parameters:,} parameters, {apart:+.1%} from "
        f"the {parameters:,} of the tensors"
    )
    swapped = architecture.embedding_parameters * (1 if architecture.tied_embeddings else -1)
    if _near(parameters, (architecture.stored_parameters + swapped,)):
        yield "with the embeddings tied the other way, the count would agree"


def _near(parameters: int, counts: Iterable[int]) -> bool:
    return any(abs(one - parameters) <= WIDEST_COUNT_DIFFERENCE * parameters for one in counts)


def _bytes_findings(
    architecture: ModelArchitecture, form: str, said: Published, own: WeightEncoding | None
) -> Iterator[str]:
    """Only where the count agrees or is not known: a wrong count says it all."""
    encoding = own or encoding_of(form)
    if encoding is None or not said.bytes:
        return
    if said.parameters and any(count_findings(architecture, said.parameters)):
        return
    expected = checkpoint_bytes(architecture, encoding)
    unloaded = architecture.stored_parameters - architecture.parameters
    least = expected - unloaded * encoding.bits("prediction") / 8
    low, high = (
        side * said.bytes for side in (1 - WIDEST_BYTES_DIFFERENCE, 1 + WIDEST_BYTES_DIFFERENCE)
    )
    if expected < low or least > high:
        yield (
            f"in the format {form}, the architecture takes {round(expected):,} bytes, "
            f"{expected / said.bytes - 1:+.1%} from the checkpoint's {said.bytes:,}"
        )


def gguf_format(header: Header) -> str | None:
    """By ``general.file_type``, or the type of most elements where that names none."""
    stated = header.metadata.get("general.file_type")
    if isinstance(stated, int):
        found = FILE_TYPES.get(stated & ~GUESSED)
        if found is not None:
            return found
    amounts: dict[str | None, int] = {}
    for tensor in header.tensors:
        amounts[tensor.type.format] = amounts.get(tensor.type.format, 0) + tensor.elements
    return max(amounts, key=lambda form: amounts[form], default=None)


def gguf_parameters(header: Header) -> int:
    """Elements of all tensors but the tables of rotary factors, which are no weights."""
    return sum(tensor.elements for tensor in header.tensors if "rope_f" not in tensor.name)


def gguf_findings(architecture: ModelArchitecture, form: str, header: Header) -> Iterator[str]:
    counts = list(count_findings(architecture, gguf_parameters(header)))
    yield from counts
    encoding = encoding_of(form)
    size = sum(tensor.bytes for tensor in header.tensors)
    if counts or encoding is None or not size:
        return
    apart = checkpoint_bytes(architecture, encoding) / size - 1
    if abs(apart) > WIDEST_BYTES_DIFFERENCE:
        off = {
            name: checkpoint_bytes(architecture, other) / size - 1
            for name, other in gguf_formats().items()
        }
        nearest = min(off, key=lambda name: abs(off[name]))
        yield (
            f"the tensors take {size:,} bytes ({size * 8 / gguf_parameters(header):.2f} bits a "
            f"parameter), the format {form} makes {apart:+.1%} of that; the nearest format is "
            f"{nearest} ({off[nearest]:+.1%})"
        )
