"""Does a number format hold up?"""

import msgspec

from tonnage.catalog.kinds import FormatRecord


def review_format(record: FormatRecord) -> list[str]:
    findings = []
    if record.weights is None and record.cache is None:
        findings.append("a format says how weights or cached elements are stored, or both")
    if record.weights is not None:
        bits = [
            record.weights.bits_per_weight,
            *msgspec.structs.astuple(record.weights.except_roles),
        ]
        if any(b is not None and not 1 <= b <= 32 for b in bits):
            findings.append("bits per weight lie between 1 and 32")
    return findings
