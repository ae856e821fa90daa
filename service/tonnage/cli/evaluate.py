"""evaluate."""

import sys
from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--kind", help="What the rows are, when they do not tell.")
@click.option("--json", "as_json", is_flag=True, help="One object, for programs.")
@click.option("--rows", is_flag=True, help="Each row's prediction beside its observation.")
def evaluate(file: Path, kind: str | None, as_json: bool, rows: bool) -> None:
    """Hold the engine against measured cases (JSON Lines) and print its errors."""
    import msgspec

    from tonnage.catalog.seed import seed_release
    from tonnage.evaluation import evaluate_file, render, render_rows

    with click.progressbar(
        length=1, label="Evaluating", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        found = evaluate_file(file, seed_release(), kind, progress)
    if as_json:
        click.echo(msgspec.json.encode(found.rows_and_report() if rows else found.report))
        return
    if rows:
        click.echo(render_rows(found))
    click.echo(render(found.report))
