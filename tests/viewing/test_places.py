import pyarrow
import pyarrow.fs
import pytest

from tests.support.recorded import make_experiment
from tune_media.viewing.places import (
    OTHER_FOLDERS,
    Folder,
    allow_many_requests,
    experiments_in,
    find_folders,
    is_trial,
)


def test_a_path_a_uri_and_a_list_name_folders(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert [folder.path for folder in find_folders([str(one), two.as_uri()])] == [str(one), str(two)]


def test_a_result_grid_names_its_experiment(tmp_path):
    class Grid:
        experiment_path = str(tmp_path)
        filesystem = pyarrow.fs.LocalFileSystem()

    assert [folder.path for folder in find_folders(Grid())] == [str(tmp_path)]


def test_a_folder_that_is_not_there_and_a_value_that_is_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nothing.*tuner\.fit"):
        find_folders(tmp_path / "nothing")
    for wrong in (7, [], None):
        with pytest.raises(TypeError, match="ResultGrid"):
            find_folders(wrong)


def test_experiments_inside_a_folder_are_named(tmp_path):
    make_experiment(tmp_path / "sweep")
    (tmp_path / "notes").mkdir()
    (tmp_path / "just begun").mkdir()
    (tmp_path / "just begun" / "tuner.pkl").touch()
    for name in (*"abcdefg", "mlartifacts", "mlruns", ".cache", "checkpoint_000001"):  # come before the trials
        (tmp_path / "sweep" / name).mkdir()
    folder = Folder(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert [inner.name for inner in experiments_in(folder)] == ["just begun", "sweep"]
    assert not OTHER_FOLDERS.match("checkpoint_frequency=5_lr=0.1_3")
    assert [inner.name for inner in folder.subfolders()] == ["just begun", "notes", "sweep"]
    assert is_trial(Folder(folder.filesystem, str(tmp_path / "sweep" / "trial_c")))


def test_pyarrow_may_send_many_requests_at_a_time_and_a_larger_number_stays():
    before = pyarrow.io_thread_count()
    try:
        pyarrow.set_io_thread_count(8)
        assert allow_many_requests() == pyarrow.io_thread_count() == 64
        pyarrow.set_io_thread_count(100)
        assert allow_many_requests() == pyarrow.io_thread_count() == 100
    finally:
        pyarrow.set_io_thread_count(before)
