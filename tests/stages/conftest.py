import shutil

import pytest


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("stages") / "place"


@pytest.fixture
def tmp_path(place):
    """One place for all tests, empty: runs that are remembered name files by their whole paths."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place
