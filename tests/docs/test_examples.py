"""Every example in README and docs is run and prints what the page says."""

import re

import pytest

from tests.docs.examples import ROOT, Example, comparable, examples, pages, run
from tests.service import Service

EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_an_example_prints_what_its_page_says(example: Example, shared_service: Service) -> None:
    assert comparable(run(example, shared_service.url)) == comparable(example.output)


def test_the_readme_has_an_example_of_each_kind() -> None:
    commands = [example.command for example in EXAMPLES if example.page.name == "README.md"]
    assert any(
        command.startswith("curl") and "/v1/fit/inference" in command for command in commands
    )
    for command in ("tonnage fit", "tonnage catalog", "tonnage evaluate"):
        assert any(command in shown for shown in commands), command


def test_links_between_pages_lead_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\(((?!https?://|#)[^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_decisions_are_short() -> None:
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert len(page.read_text().splitlines()) <= 30, page.name
