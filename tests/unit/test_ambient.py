import threading

import pytest

from ease_lib.ambient import Ambient


def test_a_value_holds_inside_of_its_context_and_the_one_before_comes_back():
    patience, seen = Ambient(0), []

    def fail_inside():
        with patience.set(1), patience.set(2):
            seen.append(patience.value)
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert (seen, patience.value) == ([2], 0)


def test_threads_see_it():
    patience, seen = Ambient(0), []
    with patience.set(1):
        thread = threading.Thread(target=lambda: seen.append(patience.value))
        thread.start()
        thread.join()
    assert seen == [1]
