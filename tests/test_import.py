import subprocess
import sys

from tune_media.values.installing import pip_install


def lines_of(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


def test_importing_the_package_loads_nothing_heavy_and_a_wrapper_and_a_catalog_no_ray():
    code = (
        "import sys, tune_media as tm;"
        "heavy = {'torch', 'ray', 'wandb', 'mlflow', 'av', 'tensorboard', 'gymnasium'};"
        "print(sorted(heavy & set(sys.modules)));"
        "tm.load, tm.gym;"
        "print(sorted(heavy & set(sys.modules) - {'gymnasium', 'av'}))"
    )
    assert lines_of(code) == ["[]", "[]"]


def test_the_callbacks_load_neither_rllib_nor_the_encoder_and_name_the_library_that_a_tracker_lacks():
    code = """
import sys, tune_media as tm
tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback(), tm.load
print(sorted({'ray.rllib', 'wandb', 'mlflow', 'av'} & set(sys.modules)))
for module, name in (("wandb", "Wandb"), ("mlflow", "MLflow")):
    sys.modules[module] = None
    try:
        getattr(tm, f"{name}MediaLoggerCallback")()
    except ImportError as error:
        print(error)
"""
    needs = {"WandbMediaLoggerCallback needs W&B": "wandb", "MLflowMediaLoggerCallback needs MLflow": "mlflow"}
    assert lines_of(code) == ["[]", *(f"{what}: {pip_install(extra)}" for what, extra in needs.items())]
