"""Quotas of processor time, in the files that Linux states them in."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.winograd.pipelines.machines import host
from iree.winograd.pipelines.machines.quota import processor_quota


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        # The least of a group's and of those around it.
        ("0::/pod/box\n", {"pod/cpu.max": "200000 100000", "pod/box/cpu.max": "max 100000"}, 2),
        ("0::/pod/box\n", {"pod/cpu.max": "400000 100000", "pod/box/cpu.max": "50000 100000"}, 0.5),
        # A container that sees its own group as the root.
        ("0::/elsewhere/box\n", {"cpu.max": "300000 100000"}, 3),
        (
            "4:cpu,cpuacct:/docker/1\n5:memory:/docker/1\n",
            {
                "cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000",
                "cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000",
            },
            2.5,
        ),
        (
            "4:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("nonsense", {"cpu.max": "nonsense"}, None),
    ],
)
def test_quotas(tmp_path: Path, groups: str, files: dict[str, str], expected: float | None) -> None:
    write(tmp_path, {"groups": groups, **{f"root/{name}": text for name, text in files.items()}})
    assert processor_quota(tmp_path / "groups", tmp_path / "root") == expected


def test_cores_are_no_more_than_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_processors", lambda: set(range(1000, 1008)))
    for quota, expected in ((None, 8), (100.0, 8), (2.5, 2), (0.2, 1)):
        monkeypatch.setattr(host, "processor_quota", lambda quota=quota: quota)
        assert host.physical_cores() == expected
        assert host.available_processors() == expected
