from pathlib import Path

import pytest

from benchmarks import speed_figure
from benchmarks.tables import __main__ as command
from benchmarks.tables.pages import TABLES, filled
from benchmarks.tables.threads import speedups

START, END = "<!-- table: compile-time compile-time.json -->", "<!-- end of table -->"


def test_tables_of_the_documents_are_those_of_the_results() -> None:
    pages = {page: page.read_text() for page in command.pages()}
    stale = [str(page) for page, text in pages.items() if filled(text) != text]
    assert stale == [], "run python -m benchmarks.tables"
    assert sum(text.count("<!-- table: ") for text in pages.values()) > 20


def test_a_table_replaces_what_stood_between_its_markers() -> None:
    page = filled(f"before\n{START}\n| old |\n{END}\nafter\n")
    assert page.startswith(f"before\n{START}\n\n| measured |") and "| 2026-11-23 | Zen 4" in page
    assert page.endswith(f"|\n\n{END}\nafter\n")
    assert "| resnet18 | 9.5 | 4.8 | 0.50 |" in page and "old" not in page
    assert filled(page) == page


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("unknown compile-time.json", "no table is named 'unknown'; those that there are: accuracy"),
        ("compile-time missing.json", "no results in missing.json"),
        ("compile-time machine-h200.json", "doesn't say when and where machine-h200.json was measured"),
    ],
)
def test_says_what_is_wrong_with_a_marker(marker: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "compile-time", lambda _: [])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        filled(f"<!-- table: {marker} -->\n{END}")


def test_check_names_pages_and_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{START}\n{END}\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "pages", lambda: [page])
    monkeypatch.setattr("sys.argv", ["tables", "--check"])
    assert command.main() == 1
    assert capsys.readouterr().out == "page.md differs\n"
    assert page.read_text() == f"{START}\n{END}\n"
    monkeypatch.setattr("sys.argv", ["tables"])
    assert command.main() == 0
    assert "resnet18" in page.read_text()


def test_speedups_of_several_runs_are_their_medians() -> None:
    def run(ours: float, runner: float) -> dict[str, object]:
        ratios = {"ours": ours, "ours-runner": runner}
        return {"threads": {"x": {"name": "7x7x512", "threads": 2, "batch": 8, "ratios": ratios}}}

    lines = speedups([run(1, 2), run(4, 3), run(2, 9)])
    assert lines[0] == "|  | 2 threads, batch 8 |"
    assert lines[2] == "| 7x7x512 | 2.00, 3.00 |"
    assert lines[3] == "| layers, mean | 2.00, 3.00 |"


def test_the_figure_of_the_readme_is_that_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["speed_figure", str(tmp_path / "speed.svg")])
    speed_figure.main()
    drawn = (tmp_path / "speed.svg").read_text()
    assert drawn == (command.ROOT / "docs" / "speed.svg").read_text(), "run python -m benchmarks.speed_figure"
    assert "ResNet-18, iree-winograd: 1.82" in drawn
