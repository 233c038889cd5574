"""The fold of a trial's lines: the same whatever their order, repeats, and what was folded before."""

import functools

from hypothesis import given
from hypothesis import strategies as st

from tests.support.index_lines import typed
from tests.support.properties import many
from tune_media.storage import fold as fold_module


def fold(lines):
    return [line.fields() for line in fold_module.fold(map(typed, lines))]


def is_of(id, line):
    return line["id"] == id


class History:
    """A made-up trial: its lines in the order of writing, and the line of each medium under each key that is true."""

    def __init__(self):
        self.row, self.iteration, self.trial, self.lines, self.truth = 1000, 0, "t1", [], {}

    def write(self, line, **more):
        self.lines.append({**line, **more})
        place = line["id"], line["key"], line["trial_id"]
        self.truth[place] = self.lines[-1], self.truth.get(place, (None, False))[1]

    def event(self, kind, is_meant, is_back, **more):
        self.lines.append({"event": kind, "row": self.row, "trial_id": self.trial, **more})
        for place, (line, _) in self.truth.items():
            if line["trial_id"] == self.trial and is_meant(line):
                self.truth[place] = line, is_back

    def chosen(self, status, number):
        lines = [line for line, _ in self.truth.values() if line["status"] == status]
        return lines[number % len(lines) :][:1] if lines else []

    def records(self, keys, status):
        self.iteration += 1
        facts = {"row": self.row, "trial_id": self.trial, "id": f"m{self.row}", "section": "e", "path": "media/x"}
        for key in keys:
            self.write({**facts, "key": key, "training_iteration": self.iteration, "status": status})

    def records_again(self, number):
        for line in self.chosen("stored", number):
            if line["trial_id"] == self.trial:
                self.iteration += 1
                self.event("again", functools.partial(is_of, line["id"]), False, id=line["id"])

    def renders(self, number, status):
        for line in self.chosen("waiting", number):
            self.write(line, status=status)

    def loses(self, number, comes_back):
        for line in self.chosen("stored", number):
            lost = fold_module.as_failed(typed(line), "lost")
            self.write(line, status="failed", note="lost", **{"try": lost.tries})
            if comes_back:
                self.write(line, status="stored", note="lost", **{"try": lost.tries + 1})

    def goes_back(self, iteration):
        self.iteration = min(self.iteration, iteration)
        reached = self.iteration
        self.event("back", lambda line: line["training_iteration"] > reached, True, training_iteration=reached + 1)

    def is_another(self):
        self.trial, self.iteration = "t2", 0  # it uses the folder of the first


NUMBERS, STATUSES = st.integers(0, 30), st.sampled_from(["stored", "waiting", "failed"])
KEYS = st.lists(st.sampled_from(["best", "worst", "last"]), min_size=1, max_size=2, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("records"), KEYS, STATUSES),
    st.tuples(st.just("records_again"), NUMBERS),
    st.tuples(st.just("renders"), NUMBERS, st.sampled_from(["stored", "tape", "failed"])),
    st.tuples(st.just("loses"), NUMBERS, st.booleans()),
    st.tuples(st.just("goes_back"), st.integers(0, 3)),
    st.just(("is_another",)),
)


def whole(lines):
    return sorted(repr(sorted(line.items())) for line in lines)


@many
@given(st.lists(STEPS, min_size=15, max_size=40), NUMBERS, st.randoms(use_true_random=False))
def test_it_finds_what_is_true_of_any_history_in_any_order(steps, cut, random):
    history = History()
    for name, *how in steps:
        history.row += 1
        getattr(history, name)(*how)
    lines, found = history.lines, fold(history.lines)
    seen = {tuple(map(one.get, ("id", "key", "trial_id"))): (one["status"], "rolled_back" in one) for one in found}
    assert seen == {place: (line["status"], is_back) for place, (line, is_back) in history.truth.items()}
    mixed = [*lines, *random.sample(lines, random.randint(0, len(lines)))]
    random.shuffle(mixed)
    head, rest = lines[:cut], lines[cut:]
    for others in (mixed, [*fold(head), *rest], [*fold(head), *lines], [*found, *head], found):
        assert whole(fold(others)) == whole(found)


def line(**more):
    fixed = {"id": "a", "section": "train", "key": "k", "path": "media/x.mp4", "row": 3, "trial_id": "t1", "v": 4}
    return {**fixed, "status": "stored", "training_iteration": 2, **more}


def test_of_two_lines_with_the_same_try_and_status_the_same_one_is_valid_in_any_order():
    one, other = line(compared="steps"), line(compared="steps, pictures", note="why")
    assert fold([one, other]) == fold([other, one, other]) == fold([*fold([one]), other])


ORDER = ["waiting", "tape", "failed", "stored"]


@many
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from(ORDER)), min_size=1, max_size=5))
def test_of_the_lines_of_a_medium_the_last_try_counts_and_then_the_highest_status(lines):
    """In a later row, it was recorded again."""
    (found,) = fold([line(row=row, status=status, **{"try": tries}) for row, tries, status in lines])
    rows, ranks = [row for row, *_ in lines], [(tries, ORDER.index(status)) for _, tries, status in lines]
    assert (found["row"], found.get("again", min(rows))) == (min(rows), max(rows))
    assert (found.get("try", 0), ORDER.index(found["status"])) == max(ranks)
