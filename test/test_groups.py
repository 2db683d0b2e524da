"""Tests of one group share what takes long to make: they have to run in one worker."""

import pytest


@pytest.mark.xdist_group("groups")
def test_workers_know_the_group_of_a_test(request: pytest.FixtureRequest) -> None:
    """By names that end in it: pytest-xdist adds that, if it knows this version of pytest."""
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@groups")
