import re

from tune_media.callbacks.mlflow.sweep_chart import color_of, sweep_chart


def test_lines_hold_a_value_until_the_next_and_go_on_to_the_last_step_of_all():
    chart = sweep_chart({"a": [(10, 5.0), (0, 1.0)], "none": [], "<b>": [(0, 2.0), (20, 3.0)]})
    lines = [
        [tuple(map(float, point.split(","))) for point in found.split()]
        for found in re.findall(r"<polyline points='([^']+)'", chart)
    ]
    assert len(lines) == 2
    xs, ys = zip(*lines[0], strict=True)
    assert list(xs) == sorted(xs)
    assert ys[0] == ys[1] > ys[2] == ys[-1]  # up is less
    assert xs[1] == xs[2]
    assert lines[0][-1][0] == lines[1][-1][0]
    assert "&lt;b&gt;: 3" in chart
    assert "<b>" not in chart
    assert color_of(0) in chart
    assert color_of(2) in chart


def test_one_point_and_none():
    assert sweep_chart({"a": [(5, 1.0)]}).count("<polyline") == 1
    assert sweep_chart({"a": []}) == sweep_chart({}) == ""
