"""fit."""

import sys
from typing import Any

import click
import msgspec

from .failures import DOES_NOT_FIT, TIGHT

CODES = {"fits": 0, "tight": TIGHT, "does_not_fit": DOES_NOT_FIT}


@click.command()
@click.option("--request", "file", type=click.File("rb"), help="A request as JSON; - reads stdin.")
@click.option("--model", help="Id or alias of a model.")
@click.option("--accelerator", help="Id or alias of an accelerator.")
@click.option("--machine", help="Id or alias of a machine, instead of an accelerator.")
@click.option("--count", type=int, help="Accelerators.")
@click.option("--runtime", help="vllm, llama.cpp, transformers, ollama …: see the catalog.")
@click.option("--version", "version", help="The runtime's version.")
@click.option("--flag", "flags", multiple=True, metavar="NAME=VALUE", help="A runtime's flag.")
@click.option("--weights", help="Number format of the weights.")
@click.option("--kv-cache", help="Number format of the KV cache.")
@click.option("--context", type=int, help="Tokens of a sequence, prompt and answer together.")
@click.option("--sequences", type=int, help="Sequences at the same time.")
@click.option("--tensor", type=int, help="Tensor parallel size.")
@click.option("--pipeline", type=int, help="Pipeline parallel size.")
@click.option("--json", "as_json", is_flag=True, help="The whole answer, as the service gives it.")
def fit(file: Any, as_json: bool, **options: Any) -> None:
    """Will it fit? Answered from the seed catalog in this package, without a server.

    Exit code: 0 fits, 10 tight, 11 does not fit, 2 for a question that can not be answered.
    """
    from tonnage.catalog.seed import seed_release
    from tonnage.decoding import decode
    from tonnage.plans.fit import answer_fit
    from tonnage.plans.requests import FitInferenceRequest

    body = file.read() if file is not None else msgspec.json.encode(_request(options))
    answer = answer_fit(decode(body, FitInferenceRequest), seed_release())
    if as_json:
        click.echo(msgspec.json.encode(answer))
    else:
        click.echo(_rendered(answer))
    sys.exit(CODES[answer.verdict])


def _request(options: dict[str, Any]) -> dict[str, Any]:
    """The options as a request body; what was left out is left out."""
    flags = dict(_flag(text) for text in options["flags"])
    found = {
        "model": options["model"],
        "hardware": {key: options[key] for key in ("accelerator", "machine", "count")},
        "runtime": {"name": options["runtime"] or "vllm", "version": options["version"]},
        "formats": {"weights": options["weights"], "kv_cache": options["kv_cache"]},
        "parallel": {"tensor": options["tensor"], "pipeline": options["pipeline"]},
        "workload": {
            "context_tokens": options["context"],
            "concurrent_sequences": options["sequences"],
        },
    }
    kept = {name: _without_none(part) for name, part in found.items() if part is not None}
    if flags:
        kept["runtime"]["flags"] = flags
    return {name: part for name, part in kept.items() if part != {}}


def _without_none(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: value for key, value in part.items() if value is not None}
    return part


def _flag(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--flag")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _capacity(capacity: Any) -> list[str]:
    def between(amount: Any) -> str:
        text = str(amount.expected)
        return text if amount.low == amount.high else f"{text}  ({amount.low} to {amount.high})"

    lines = [
        f"longest context at this concurrency: {between(capacity.longest_context)} tokens",
        f"sequences at this context: {between(capacity.sequences_at_context)}",
    ]
    if capacity.layers_on_accelerator is not None:
        lines.append(f"layers that fit at this context: {capacity.layers_on_accelerator}")
    return lines


def _rendered(answer: Any) -> str:
    gib = 2**30
    lines = [answer.summary, answer.outcome.text]
    if answer.outcome.message:
        lines += ["", f"  {answer.outcome.message}"]
    lines.append("")
    for ranks in answer.ledger:
        count = len(ranks.accelerators)
        lines.append(
            f"each of {count} accelerators" if count > 1 else f"accelerator {ranks.accelerators[0]}"
        )
        for entry in ranks.components:
            low, expected, high = (
                getattr(entry.bytes, end) / gib for end in ("low", "expected", "high")
            )
            between = f"  ({low:.2f} to {high:.2f})" if low != high else ""
            lines.append(f"  {entry.name:<17}{expected:9.2f} GiB{between}")
        lines.append(
            f"  {'free':<17}{ranks.free.expected / gib:9.2f} GiB"
            f"  ({ranks.free.low / gib:.2f} to {ranks.free.high / gib:.2f})"
        )
        lines.append(f"  {'usable':<17}{ranks.usable / gib:9.2f} GiB")
    lines += ["", *_capacity(answer.capacity)]
    for title, notes in (
        ("Assumed", answer.assumptions),
        ("Support", answer.support.notes),
        ("Beware", answer.warnings),
    ):
        lines += [f"{title}: {note.text}" for note in notes]
    for remedy in answer.remedies:
        patch = msgspec.json.encode(remedy.patch).decode()
        lines.append(f"{remedy.verdict}: {patch}  ({remedy.cost})")
    return "\n".join(lines)
