"""What holds for all tests: what a user has calibrated or compiled before changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from iree.winograd.pipelines.machines.store import DATA_FOLDER_VARIABLE
from iree.winograd.torch_compile.cache import FOLDER_VARIABLE


@pytest.fixture(autouse=True, scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield
