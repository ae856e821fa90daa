"""evaluate."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kind", help="What the rows are, when they do not tell.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.option("--groups", is_flag=True, help="Also for each runtime, era and format.")
@click.option("--rows", is_flag=True, help="Each row's prediction beside its observation.")
def evaluate(file: Path, kind: str | None, as_json: bool, groups: bool, rows: bool) -> None:
    """Hold the engine against measured cases (JSON Lines) and print its errors."""
    import msgspec

    from tonnage.catalog.seed import seed_release
    from tonnage.evaluation import predict_file, render, render_rows, summarise

    with click.progressbar(
        length=1, label="Evaluating", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        found = predict_file(file, seed_release(), kind, progress)
    report = summarise(found)
    if as_json:
        plain = msgspec.to_builtins(report)
        click.echo(msgspec.json.encode({**plain, "predictions": found.results} if rows else plain))
        return
    if rows:
        click.echo(render_rows(found))
    click.echo(render(report, groups=groups))
