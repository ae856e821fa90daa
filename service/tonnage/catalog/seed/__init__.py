"""The seed catalog: plain files in this folder, loaded as release 1 of an empty database.

``<kind>/<group>.jsonl`` has one record a line. What failed review is in ``left_out.*.json`` with
the reason, and never loaded.
"""

from importlib.resources import files

import msgspec

from tonnage.catalog.kinds import AnyRecord
from tonnage.catalog.release import Release

MESSAGE = "Seed catalog"
AUTHOR = "tonnage"
DIGEST = "digest.txt"

_decoder = msgspec.json.Decoder(AnyRecord)


def seed_records() -> list[AnyRecord]:
    """Every record of the seed files, in order of file and line."""
    folder = files(__name__)
    kinds = sorted((entry for entry in folder.iterdir() if entry.is_dir()), key=lambda e: e.name)
    return [
        record
        for kind in kinds
        for file in sorted(kind.iterdir(), key=lambda entry: entry.name)
        if file.name.endswith(".jsonl")
        for record in _decoder.decode_lines(file.read_bytes())
    ]


def seed_release() -> Release:
    """The seed as release 1, without a database.

    Its digest is kept in a file, as computing it takes longer than everything else; a test holds
    the two together and ``tonnage catalog review --write`` renews it.
    """
    digest = files(__name__) / DIGEST
    held = digest.read_text().strip() if digest.is_file() else None
    return Release(1, seed_records(), held)
