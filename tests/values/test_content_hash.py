import pickle

import numpy as np

from tune_media.values.content_hash import ContentHash


def test_arrays_are_told_apart_after_they_are_gone():
    array, other = np.zeros(9), np.ones(9)
    kept, others = ContentHash(array), ContentHash(other)
    assert kept.value() != others.value()
    del array, other
    assert kept.differs_from(others)
    assert not kept.differs_from(ContentHash(np.zeros(9)[:]))  # gone before anybody asked: nobody knows


def test_it_keeps_no_array_alive():
    array = np.zeros(9)
    hash = ContentHash(array)
    del array
    assert hash.value() is None


def test_pickled_it_has_its_value():
    array = np.zeros((3, 4)).T
    assert pickle.loads(pickle.dumps(ContentHash(array))).value() == ContentHash(np.zeros((4, 3))).value()
