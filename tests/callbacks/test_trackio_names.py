"""The names of Trackio that are not public and that the callback needs; a release may change them."""

import importlib.metadata
import importlib.util

import pytest

if importlib.util.find_spec("trackio") is None:
    pytest.skip("trackio is not installed: .ci/beside trackio runs these tests", allow_module_level=True)

CHANGED = f"Trackio {importlib.metadata.version('trackio')} has changed"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("trackio", "get_project_media_path"),
        ("trackio.sqlite_storage", "SQLiteStorage.validate_project_name"),
        ("trackio.utils", "RESERVED_KEYS"),
        ("trackio.utils", "MEDIA_DIR"),
        ("trackio.utils", "get_storage_mode"),
        ("trackio.fragments", "metric_record"),
        ("trackio.fragments", "import_records"),
        ("trackio.fragments", "FragmentWriter.write_local"),
        ("trackio", "Histogram._to_dict"),
        ("trackio", "Table._to_dict"),
        ("trackio", "Image._to_dict"),
        ("trackio", "Video._to_dict"),
    ],
)
def test_it_is_there(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        assert hasattr(found, part), f"{CHANGED} {module}.{name}"
        found = getattr(found, part)
