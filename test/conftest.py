"""What holds for all tests: machines that a user has calibrated don't change what is chosen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from iree.winograd.pipelines.machines.store import DATA_FOLDER_VARIABLE


@pytest.fixture(autouse=True, scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        yield
