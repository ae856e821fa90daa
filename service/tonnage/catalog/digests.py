"""What makes two records, or two releases, the same: their canonical bytes."""

import hashlib
from collections.abc import Iterable

from tonnage.canonical import canonical

from .kinds import AnyRecord

Identity = tuple[str, str]
"""Kind and id."""


def record_digest(record: AnyRecord) -> str:
    return hashlib.sha256(canonical(record)).hexdigest()


def release_digest(records: Iterable[tuple[Identity, str]]) -> str:
    """The digest of a release is that of its records' digests, in order of kind and id."""
    whole = hashlib.sha256()
    for (kind, record_id), digest in sorted(records):
        whole.update(f"{kind}\t{record_id}\t{digest}\n".encode())
    return f"sha256:{whole.hexdigest()}"
