import pytest

from tune_media.callbacks.faults import Faults


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def test_faults_of_one_kind_are_said_once_and_counted(caplog):
    faults = Faults(strict=False)
    for number in range(5):
        with faults.guard("W&B", "logging metrics"):
            raise ValueError(f"number {number}")
    faults.report("W&B", "logging metrics", TypeError("another type"))
    faults.report("MLflow", "logging metrics", ValueError("another place"))
    faults.report("W&B", "logging metrics", ValueError("another kind"), kind="away")
    assert faults.count == 8
    assert [text.partition("(")[2].partition(")")[0] for text in said(caplog)] == [
        "ValueError: number 0",
        "TypeError: another type",
        "ValueError: another place",
        "ValueError: another kind",
    ]
    assert "tune_media: W&B: logging metrics failed" in said(caplog)[0]
    assert "To stop at the first, pass media=MediaOptions(strict=True)." in said(caplog)[0]


def test_strict_faults_are_raised_at_once_and_those_of_the_background_later():
    faults = Faults(strict=True)
    with pytest.raises(ValueError, match="here"), faults.guard("W&B", "logging"):
        raise ValueError("here")
    for text in ("first", "second"):
        faults.report("W&B", "logging", KeyError(text))
    with pytest.raises(KeyError, match="first"):
        faults.raise_first()
    faults.raise_first()  # once


def test_an_error_that_has_no_text_is_a_fault_as_any_other(caplog):
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError

    Faults(strict=False).report("W&B", "logging\nmetrics", MuteError())
    assert "logging\\nmetrics failed (MuteError: <MuteError>)" in said(caplog)[0]


def test_endless_kinds_of_faults_do_not_fill_the_memory_or_the_log(caplog):
    faults = Faults(strict=False)
    for number in range(1500):
        faults.report("reader", "reading", ValueError(), kind=str(number))
    assert (faults.count, len(caplog.records)) == (1500, 1000)
