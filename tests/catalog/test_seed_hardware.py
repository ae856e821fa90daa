"""The seed of hardware, prices, runtimes and sites: strict, sound, complete against its facts."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from importlib.resources import files

import msgspec
import pytest

from tonnage.catalog.kinds import AcceleratorRecord, AnyRecord, Kind
from tonnage.catalog.names import normal
from tonnage.catalog.review import hardware
from tonnage.catalog.review.hardware import Lookup

SEED = files("tonnage.catalog.seed")
LEFT_OUT = SEED / "left_out.hardware.json"

REVIEWS: dict[Kind, Callable[..., list[str]]] = {
    "accelerators": hardware.review_accelerator,
    "links": hardware.review_link,
    "machines": hardware.review_machine,
    "offers": hardware.review_offer,
    "hosted-apis": hardware.review_hosted_api,
    "sites": hardware.review_site,
    "runtimes": hardware.review_runtime,
}

ADDED_ACCELERATORS = (
    "nvidia-a800-80gb-sxm nvidia-h800-80gb-sxm nvidia-h20-141gb nvidia-h100-96gb amd-mi250x-die "
    "amd-mi300a nvidia-rtx-5000-ada nvidia-rtx-4000-ada nvidia-rtx-a2000-6gb "
    "nvidia-rtx-pro-3000-blackwell-laptop nvidia-gtx-1050-ti nvidia-gtx-1070 "
    "nvidia-cmp-170hx-64gb nvidia-jetson-agx-orin-64gb amd-rx-6700-xt amd-rx-6800 "
    "amd-rx-7900-gre amd-rx-9060-xt-16gb amd-radeon-890m-96gb"
)
"""Parts that measured runs name and the collected facts lack."""

MEASURED_NAMES = (
    # Serving logs
    "A10-24GB, A100-40GB, A100-80GB, A10G-24GB, A40, A800-80GB, GB10, H100-80GB, H100-96GB, "
    "H100-NVL-94GB, H20-141GB, H20-96GB, H200, H800-80GB, L4, L40S, MI250X-GCD-64GB, MI300A-128GB, "
    "MI300X, MI355X, RTX3070-8GB, RTX3090, RTX4060-8GB, RTX4090, RTX5080, RTX5090, RTXA5000, "
    "RTXA6000, RTXPRO6000-96GB, RX7900XTX-24GB, RX9070XT, StrixHalo-8060S, T4, "
    # Serving and training speed
    "A100-SXM-80GB, B200-SXM-180GB, GB200, GB300, GH200-96GB, GH200-144GB, Gaudi2-96GB, "
    "Gaudi3-128GB, H100-PCIe-80GB, H100-SXM-80GB, H200-NVL-141GB, H200-SXM-141GB, "
    "H800-SXM-80GB, L40-48GB, MI300X-192GB, MI325X-256GB, MI355X-288GB, RTX-PRO-6000-BSE-96GB, "
    "TPU-v6e-32GB, B200-180GB, B300-270GB, GB200-186GB, GB300-279GB, H200-141GB, TPU-trillium, "
    "TPU-v5p, TPUv4, AMD Instinct MI300X 192GB HBM3, AMD Instinct MI350X, NVIDIA L40S, "
    "NVIDIA Blackwell GPU (GB200), NVIDIA H100-SXM5-80GB, NVIDIA A100-SXM4-80GB, L40S-48GB, "
    "RTX4090-24GB, RTXA6000-48GB, RTX3090-24GB, V100-16GB, V100-32GB, T4-16GB, V100, "
    # Local devices
    "A100 PCIe 80GB, A100 SXM 80GB, Apple M1, Apple M1 Max, Apple M1 Pro, Apple M1 Ultra, "
    "Apple M2, Apple M2 Max, Apple M2 Max 32GB, Apple M2 Ultra, Apple M3, Apple M3 Max, "
    "Apple M3 Pro, Apple M3 Ultra, Apple M4, Apple M4 Max, Apple M4 Pro, Apple M4 Pro 24GB, "
    "Apple M5, Apple M5 Max, Apple M5 Pro, Arc A770, Arc B580, B200, CMP 170HX 64GB, "
    "DGX Spark GB10, GTX 1050 Ti, GTX 1070, H100 PCIe 80GB, H100 SXM 80GB, Jetson AGX Orin 64GB, "
    "Radeon 890M, Radeon AI PRO R9700, RTX 2070 SUPER, RTX 2080, RTX 2080 Ti, RTX 3060, RTX 3070, "
    "RTX 3080, RTX 3080 Ti, RTX 3090, RTX 3090 Ti, RTX 4000 Ada, RTX 4060 Ti 16GB, "
    "RTX 4070, RTX 4070 Ti, RTX 4070 Ti SUPER, RTX 4080, RTX 4090, RTX 4090 D, RTX 5000 Ada, "
    "RTX 5060 Laptop 8GB, "
    "RTX 5060 Ti 16GB, RTX 5070, RTX 5070 Ti, RTX 5080, RTX 5090, RTX 6000 Ada, "
    "RTX 6000 Ada Generation, RTX A2000, RTX A4000, RTX A6000, "
    "RTX PRO 3000 Blackwell Laptop 12GB, RTX PRO 6000 Blackwell, RTX PRO 6000 Blackwell Max-Q, "
    "RTX PRO 6000 Blackwell Workstation Edition, RX 6700 XT, RX 6800, RX 6800 XT, RX 7900 GRE, "
    "RX 7900 XT, RX 7900 XTX, RX 9060 XT 16GB, RX 9070, RX 9070 XT, Strix Halo 128GB, Tesla P100, "
    "Tesla P40, Tesla T4, Tesla V100 32GB, "
    # Kubernetes labels
    "NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3, NVIDIA-H100-PCIe, NVIDIA-H200, NVIDIA-B200, "
    "NVIDIA-L4, NVIDIA-L40S, NVIDIA-A10G, Tesla-T4, NVIDIA-GeForce-RTX-4090, nvidia-tesla-a100, "
    "nvidia-a100-80gb, nvidia-h100-80gb, nvidia-h100-mega-80gb, nvidia-h200-141gb, nvidia-b200, "
    "nvidia-gb200, nvidia-l4, nvidia-tesla-t4, nvidia-tesla-v100, tpu-v5-lite-podslice, H100, A100"
)


@cache
def seed() -> dict[str, list[AnyRecord]]:
    decoder = msgspec.json.Decoder(AnyRecord, strict=True)
    return {
        kind.name: [
            decoder.decode(line)
            for file in sorted(kind.iterdir(), key=lambda entry: entry.name)
            if file.name.endswith(".jsonl")
            for line in file.read_bytes().splitlines()
        ]
        for kind in SEED.iterdir()
        if kind.is_dir() and not kind.name.startswith("_")
    }


@cache
def by_id() -> dict[str, dict[str, AnyRecord]]:
    return {kind: {record.id: record for record in records} for kind, records in seed().items()}


def lookup(kind: Kind, record_id: str) -> AnyRecord | None:
    return by_id()[kind].get(record_id)


def left_out(kind: Kind) -> int:
    return sum(entry["kind"] == kind for entry in json.loads(LEFT_OUT.read_text()))


@pytest.mark.parametrize("kind", REVIEWS)
def test_records_are_of_their_folder_and_pass_review(kind: Kind) -> None:
    checked: Lookup = lookup
    findings = {}
    for record in seed()[kind]:
        assert record.__struct_config__.tag == kind
        if found := REVIEWS[kind](record, checked):
            findings[record.id] = found
    assert findings == {}


@pytest.mark.parametrize("kind", REVIEWS)
def test_ids_are_unique(kind: Kind) -> None:
    ids = Counter(record.id for record in seed()[kind])
    assert [record_id for record_id, times in ids.items() if times > 1] == []


@pytest.mark.parametrize("kind", [kind for kind in REVIEWS if kind != "hosted-apis"])
def test_a_name_belongs_to_one_record(kind: Kind) -> None:
    """Hosted models are left out: providers sell ``llama3.1`` and ``llama-3.1`` side by side."""
    owners = defaultdict(set)
    for record in seed()[kind]:
        for name in (record.id, *record.aliases, *record.default_for):
            owners[normal(name)].add(record.id)
    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}


@pytest.mark.parametrize("name", MEASURED_NAMES.split(", "))
def test_names_of_measured_runs_resolve(name: str) -> None:
    known = {
        normal(alias)
        for record in seed()["accelerators"]
        for alias in (record.id, *record.aliases, *record.default_for)
    }
    assert normal(name) in known


def test_measured_totals_are_what_runtimes_printed() -> None:
    printed_gib = {
        "nvidia-h100-80gb-sxm": 79.18,
        "nvidia-a100-40gb-sxm": 39.38,
        "nvidia-h200-141gb-sxm": 139.72,
        "nvidia-l40s": 44.52,
        "nvidia-t4": 14.56,
        "nvidia-a10g": 21.99,
        "nvidia-rtx-3090": 23.58,
        "amd-mi300x": 191.98,
        "apple-m1-max-64gb": 48.0,
    }
    for record_id, total in printed_gib.items():
        record = by_id()["accelerators"][record_id]
        assert isinstance(record, AcceleratorRecord)
        usable = record.usable_memory
        assert usable.basis == "measured"
        assert usable.low_bytes <= int(total * 2**30) <= usable.high_bytes, record_id


def test_no_collected_fact_is_missing() -> None:
    """Every fact is a record or is left out by name. Apple's sizes are records of one chip."""
    parts = {
        record.name.rpartition(" ")[0].rpartition(" ")[0] if record.vendor == "Apple" else record.id
        for record in seed()["accelerators"]
        if isinstance(record, AcceleratorRecord) and record.id not in ADDED_ACCELERATORS.split()
    }
    assert len(parts) + left_out("accelerators") == 166
    assert len(seed()["links"]) + left_out("links") == 53
    assert len(seed()["machines"]) + left_out("machines") == 282
    assert len(seed()["hosted-apis"]) + left_out("hosted-apis") == 1055
    assert len(seed()["runtimes"]) == 26
    figures = [fact for record in seed()["sites"] for fact in getattr(record, "facts", ())]
    assert len(figures) == 202


def test_every_first_price_is_an_offer() -> None:
    offers = [record.id.rpartition("/") for record in seed()["offers"]]
    sold = {machine.rpartition("/")[0] for machine, _, term in offers if term == "on_demand"}
    assert len(sold) + left_out("offers") == 275


def test_every_omission_has_a_reason() -> None:
    for entry in json.loads(LEFT_OUT.read_text()):
        assert set(entry) == {"kind", "id", "reason"}
        assert entry["reason"].endswith(".")
