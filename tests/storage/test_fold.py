"""The fold of a trial's lines: the same whatever their order, repeats, and what was folded before."""

import random

import pytest

from tests.support.index_lines import typed
from tune_media.storage import fold as fold_module

KEYS = ("best", "worst", "last")


def fold(lines):
    return [line.fields() for line in fold_module.fold(map(typed, lines))]


def history(seed):
    """Return the lines of a made-up trial in the order of writing, and what is true at their end.

    What is true: the status of each medium under each key, and whether its trial has left it behind.
    """
    rng = random.Random(seed)
    row, iteration, trial, lines, truth, tapes = 1000, 0, "t1", [], {}, []

    def write(id, key, status, **more):
        known = truth[id, key]
        known["line"] = {**known["line"], "status": status, **more}
        lines.append(known["line"])
        known["status"] = status

    for number in range(rng.randint(1, 40)):
        row += 1
        if iteration and rng.random() < 0.15:
            iteration = rng.randint(0, iteration)
            lines.append({"event": "back", "row": row, "trial_id": trial, "training_iteration": iteration + 1})
            for known in truth.values():
                known["back"] |= known["trial"] == trial and known["iteration"] > iteration
            row += 1
        if rng.random() < 0.05:
            trial, iteration = "t2", 0  # another trial uses the folder
        iteration += 1
        again = [key for key, known in truth.items() if known["trial"] == trial and known["status"] == "stored"]
        if again and rng.random() < 0.15:
            id = rng.choice(again)[0]
            lines.append({"event": "again", "row": row, "trial_id": trial, "id": id})
            for key, known in truth.items():
                known["back"] &= not (key[0] == id and known["trial"] == trial)
        else:
            status = rng.choice(["stored", "waiting", "failed"])
            for key in rng.sample(KEYS, rng.randint(1, 2)):
                line = {"row": row, "trial_id": trial, "id": f"m{number}", "section": "e", "key": key}
                line |= {"path": f"media/{number}", "training_iteration": iteration}
                truth[f"m{number}", key] = {"line": line, "back": False, "iteration": iteration, "trial": trial}
                write(f"m{number}", key, status)
                tapes += [(f"m{number}", key)] if status == "waiting" else []
        if tapes and rng.random() < 0.5:
            key = tapes.pop(rng.randrange(len(tapes)))
            if truth[key]["status"] == "waiting":
                write(*key, rng.choice(["stored", "stored", "tape", "failed"]))
        stored = [key for key, known in truth.items() if known["status"] == "stored"]
        if stored and rng.random() < 0.08:  # its file is not there; perhaps it comes in the end
            key = rng.choice(stored)
            lost = fold_module.as_failed(typed(truth[key]["line"]), "lost")
            write(*key, "failed", **{"try": lost.tries, "note": "lost"})
            if rng.random() < 0.5:
                write(*key, "stored", **{"try": lost.tries + 1})
    return lines, {(*key, known["trial"]): (known["status"], known["back"]) for key, known in truth.items()}


def seen(lines):
    return {
        tuple(map(one.get, ("id", "key", "trial_id"))): (one["status"], bool(one.get("rolled_back"))) for one in lines
    }


def whole(lines):
    return sorted(repr(sorted(line.items())) for line in lines)


@pytest.mark.parametrize("part", range(10))
def test_it_finds_what_is_true_of_random_histories_in_any_order(part):
    for seed in range(100 * part, 100 * (part + 1)):
        lines, truth = history(seed)
        rng, found = random.Random(seed), fold(lines)
        assert seen(found) == truth, seed
        mixed = lines + rng.sample(lines, rng.randint(0, len(lines)))
        rng.shuffle(mixed)
        assert whole(fold(mixed)) == whole(found), seed
        cut = rng.randint(0, len(lines))
        assert whole(fold([*fold(lines[:cut]), *lines[cut:]])) == whole(found), seed
        assert whole(fold([*fold(lines[:cut]), *lines])) == whole(found), seed
        assert whole(fold([*found, *lines[:cut]])) == whole(found), seed
        assert whole(fold(found)) == whole(found), seed


def line(**more):
    fixed = {"id": "a", "section": "train", "key": "k", "path": "media/x.mp4", "row": 3, "trial_id": "t1", "v": 4}
    return {**fixed, "status": "stored", "training_iteration": 2, **more}


def test_of_two_lines_with_the_same_try_and_status_the_same_one_is_valid_in_any_order():
    one, other = line(compared="steps"), line(compared="steps, pictures", note="why")
    assert fold([one, other]) == fold([other, one, other]) == fold([*fold([one]), other])


def test_lines_of_another_trial_in_the_folder_are_untouched():
    back = {"event": "back", "row": 5, "trial_id": "t2", "training_iteration": 1}
    assert fold([line(), back]) == [line()]
