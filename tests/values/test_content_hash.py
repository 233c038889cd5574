import numpy as np

from tune_media.values.content_hash import ContentHash


def test_it_keeps_no_array_alive():
    array = np.zeros(9)
    hash = ContentHash(array)
    del array
    assert hash.value() is None
