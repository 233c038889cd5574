import signal

from tests.support.experiment import image_steps, trial_folders
from tests.support.processes import driver
from tests.support.trackers import mlflow_store, read_mlflow, read_wandb

SCRIPT = """
import sys, time
import numpy as np
from ray import tune
import tune_media as tm
from tests.support import quiet_ray

folder = sys.argv[1]

def train(config):
    for step in range(1, 1000):
        frames = (np.full((16, 24, 3), 9 * t, np.uint8) for t in range(3))
        tune.report({"score": step, "rollout": tm.Video(frames, fps=5)})
        time.sleep(0.2)

quiet_ray.init(has_rllib=False, num_cpus=2)
callbacks = [
    tm.JsonMediaLoggerCallback(),
    tm.TBXMediaLoggerCallback(),
    tm.WandbMediaLoggerCallback(project="p", mode="offline"),
    tm.MLflowMediaLoggerCallback(f"sqlite:///{folder}/mlflow.db", artifact_location=f"file://{folder}/mlruns"),
]
run_config = tune.RunConfig(name="interrupted", storage_path=folder, verbose=0, callbacks=callbacks)
tune.Tuner(train, run_config=run_config).fit()
"""


def test_every_logger_is_closed(tmp_path):
    script, outbox = tmp_path / "sweep.py", tmp_path / "outbox"  # W&B's files are in it until the end
    script.write_text(SCRIPT)
    mlflow_store(tmp_path)
    with driver(script, str(tmp_path), log=tmp_path / "log", TUNE_MEDIA_OUTBOX=str(outbox)) as sweep:
        sweep.wait_until(lambda: len(list(tmp_path.glob("interrupted/*/media/train/rollout/*.mp4"))) >= 4)
        sweep.wait_until(lambda: any(file.stat().st_size for file in outbox.rglob("*.wandb")))
        sweep.process.send_signal(signal.SIGINT)
        sweep.process.wait(timeout=120)
    (trial,) = trial_folders(tmp_path / "interrupted")
    stored = sorted(int(path.name[5:14]) for path in (trial / "media/train/rollout").iterdir())
    assert stored == list(range(1, len(stored) + 1))
    assert image_steps(trial) == {"train/rollout": stored}
    offline = read_wandb(trial)
    assert sorted(offline.clips["train/rollout"]) == stored
    assert offline.status == 255
    tracked = read_mlflow(f"sqlite:///{tmp_path}/mlflow.db", "_".join(trial.name.split("_")[:3]))
    assert sorted(tracked.clips["train/rollout"]) == stored
    assert tracked.status == "KILLED"
