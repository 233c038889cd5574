from tune_media.values.safe_names import name_digest, safe_name


def test_long_names_that_differ_at_the_end_stay_different_when_they_are_cut():
    first, second = (safe_name("x" * 200 + end, max_length=60) for end in "ab")
    assert len(first) == len(second) == 60
    assert first != second
    assert safe_name("x" * 60, max_length=60) == "x" * 60


def test_a_digest_is_the_same_in_every_process_and_takes_any_text():
    assert name_digest("episodes/best") == "464eaf2b3c32"
    assert len(name_digest("\ud800")) == 12
