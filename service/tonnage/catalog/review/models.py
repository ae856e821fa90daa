"""What is wrong with a model's record, as far as the record itself can tell.

The strongest check is the count: parameters recomputed from the shapes must be within one per cent
of the published ones, so a wrong width, an unseen bias or a missing layer does not pass.
"""

import re
from collections.abc import Iterator

from tonnage.catalog.kinds import ModelRecord
from tonnage.engine.attention import Attention
from tonnage.engine.errors import EngineError
from tonnage.engine.feed_forward import MixtureOfExperts
from tonnage.engine.model import ModelArchitecture

WIDEST_DIFFERENCE = 0.01
WITHOUT_ADDRESS = ("recalled", "supplied by the caller")
"""What the title of a source says when it has no url to give."""
DATE = re.compile(r"^\d{4}(-\d{2}(-\d{2})?)?$")


def review_model(record: ModelRecord) -> list[str]:
    """Findings, empty when the record is sound."""
    findings = [*_sources(record), *_dates(record), *_names(record)]
    if record.architecture is None:
        if not record.note:
            findings.append("there is no architecture and no note says why")
        return findings
    try:
        record.architecture.check()
    except EngineError as problem:
        return [*findings, f"the architecture contradicts itself: {problem.message}"]
    findings += _shapes(record.architecture)
    findings += _counts(record, record.architecture)
    return findings


def difference(record: ModelRecord) -> float | None:
    """How far the parameters of the shapes are from the published ones, as a fraction of these."""
    if record.architecture is None or not record.published_parameters:
        return None
    counted = record.architecture.stored_parameters
    return (counted - record.published_parameters) / record.published_parameters


def _sources(record: ModelRecord) -> Iterator[str]:
    for source in record.sources:
        if source.url is None and not any(word in source.title for word in WITHOUT_ADDRESS):
            yield f"the source {source.title!r} has no url and does not say why"


def _dates(record: ModelRecord) -> Iterator[str]:
    dated = [("released", record.released)]
    dated += [(f"date of the source {source.title!r}", source.date) for source in record.sources]
    for what, date in dated:
        if date is not None and not DATE.match(date):
            yield f"the {what} is {date!r}, not a date such as 2026, 2026-08 or 2026-08-22"


def _names(record: ModelRecord) -> Iterator[str]:
    if record.id in record.aliases or record.name in record.aliases:
        yield "an alias repeats the id or the name"


def _shapes(architecture: ModelArchitecture) -> Iterator[str]:
    for layer in architecture.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and mixer.query_heads % mixer.key_value_heads:
                yield (
                    f"in {layer.name!r}, {mixer.key_value_heads} key-value heads do not divide "
                    f"{mixer.query_heads} query heads"
                )
        for part in layer.feed_forward:
            if isinstance(part, MixtureOfExperts) and part.experts_per_token > part.experts:
                yield f"in {layer.name!r}, more experts are chosen than there are"
        if not layer.mixers and not layer.feed_forward and layer.norms:
            yield f"the layer {layer.name!r} has norms and nothing else"


def _counts(record: ModelRecord, architecture: ModelArchitecture) -> Iterator[str]:
    apart = difference(record)
    if apart is not None and abs(apart) > WIDEST_DIFFERENCE:
        yield (
            f"the shapes give {architecture.stored_parameters:,} stored parameters, "
            f"{apart:+.2%} from the published {record.published_parameters:,}"
        )
        swapped = architecture.embedding_parameters * (1 if architecture.tied_embeddings else -1)
        other = architecture.stored_parameters + swapped
        published = record.published_parameters or 1
        if abs(other - published) / published <= WIDEST_DIFFERENCE:
            yield "with the embeddings tied the other way, the count would agree"
    active = record.active_parameters
    if active is not None and active > architecture.stored_parameters * (1 + WIDEST_DIFFERENCE):
        yield f"more parameters are active ({active:,}) than there are"
