"""The examples of the documentation run as they stand."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import iree.winograd as winograd
import pytest
from iree.winograd.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTATION = ROOT / "docs"
PAGES = sorted(DOCUMENTATION.rglob("*.md"))
OTHER_PAGES = sorted(
    [*ROOT.glob("*.md"), ROOT / "samples" / "README.md", ROOT / "test" / "fuzz" / "README.md"]
)
SOURCES = [
    str(path)
    for root in ("dialect", "passes", "pipelines", "python", "test", "benchmarks", "samples")
    for path in (ROOT / root).rglob("*.*")
]
LONGEST_PROSE = 120
FIRST_SCREEN = 25
"""Lines that a reader sees without scrolling."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text()), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", heading.strip().lower()) for heading in headings)
    return {re.sub(r"\s", "-", each) for each in words}


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_links_lead_to_pages_and_headings_that_are_there(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_lines_of_prose_are_short(page: Path) -> None:
    prose = (
        line
        for line in without_code(page.read_text()).splitlines()
        if not line.startswith(("|", "    ", "<!--"))
    )
    assert [line for line in prose if len(line) > LONGEST_PROSE] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_begin_with_what_to_type(page: Path) -> None:
    beginning = page.read_text().splitlines()[:FIRST_SCREEN]
    assert any(line.startswith("```") for line in beginning)


def test_the_glossary_has_the_names_that_the_code_has() -> None:
    rows = re.findall(r"^\|.*\|(.*)\|$", (DOCUMENTATION / "glossary.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    roots = ("dialect", "passes", "pipelines", "python")
    words = {
        word
        for root in roots
        for path in (ROOT / root).rglob("*.py")
        for word in re.findall(r"\w+", path.read_text())
    }
    assert len(names) > 30
    assert names - words == set()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_python_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCUMENTATION / "guides" / "python.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_everything_public_is_in_the_python_api() -> None:
    page = (DOCUMENTATION / "reference" / "python-api.md").read_text()
    assert [name for name in winograd.__all__ if not re.search(rf"\b{name}\b", page)] == []


def test_commands_are_in_the_page_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = set(re.findall(r"^    ([a-z-]+)(?= |$)", capsys.readouterr().out, re.MULTILINE))
    page = (DOCUMENTATION / "reference" / "command-line.md").read_text()
    (table,) = re.findall(r"\| `iree-winograd` \|.*\n((?:\|.*\n)*)", page)
    rows = (row.split("|")[1] for row in table.splitlines()[1:])
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == commands


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_files_that_pages_name_are_there(page: Path) -> None:
    """By their path from the root, or by the end of it."""
    named = set(re.findall(r"`((?:[\w-]+/)+[\w.-]*\.(?:py|mlir))`", page.read_text()))
    yours = {path for path in named if re.search(r"/(test_)?my[_-]", path)}
    missing = {path for path in named - yours if not any(each.endswith(f"/{path}") for each in SOURCES)}
    assert missing == set()


def test_the_workflow_and_the_hooks_run_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    (commands,) = re.findall(r"command: \[(.*)\]", workflow)
    hooks = re.findall(r"entry: make --silent (\S+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert {"test", "demo"} <= set(commands.split(", ")) <= targets
    assert len(hooks) == 3 and set(hooks) <= targets
