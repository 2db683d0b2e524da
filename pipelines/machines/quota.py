"""How much processor time a process may take: the quota of the control groups that it is in, on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_GROUPS = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


def processor_quota(groups: Path = _GROUPS, root: Path = _ROOT) -> float | None:
    """The processors that this process may keep busy, 1.5 for example, or None without a quota.

    `groups` says which control groups it is in, as cgroups(7) describes it, and `root` is where they are.
    """
    return min(_quotas(groups, root), default=None)


def _quotas(groups: Path, root: Path) -> Iterator[float]:
    for folder in _folders(groups, root):
        # Version 2: "150000 100000", or "max 100000".
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)
        # Version 1: -1 without a quota.
        with suppress(OSError, ValueError, ZeroDivisionError):
            microseconds = int((folder / "cpu.cfs_quota_us").read_text())
            if microseconds > 0:
                yield microseconds / int((folder / "cpu.cfs_period_us").read_text())


def _folders(groups: Path, root: Path) -> Iterator[Path]:
    """Those of the groups that the process is in, and of all around them, for processors.

    A container may see its own group as the root, whatever path it is told.
    """
    yield from (root, root / "cpu", root / "cpu,cpuacct")
    with suppress(OSError, ValueError):
        for line in groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            mounted = root / controllers if controllers else root
            if controllers and "cpu" not in controllers.split(","):
                continue
            inner = PurePosixPath(path.lstrip("/"))
            yield from (mounted / each for each in (inner, *inner.parents))
