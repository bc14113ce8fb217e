"""Curves hold the data of the histories; labels beside lines keep their distance."""

import math

import pytest
from fake_runs import SITES, history
from hypothesis import given
from hypothesis import strategies as st

from fedsuper.report.figures.labels import short, spread
from fedsuper.report.figures.style import colors_of, to_svg
from fedsuper.report.histories import roles_of, site_scores, validation_curve
from fedsuper.report.sections.making.training import training_curves
from fedsuper.report.sections.scores.results import site_dots


def entry(number: int, **scores: float | None) -> dict:
    return {"round": number, "sites": {site: {"val/global": value} for site, value in scores.items()}}


def test_rounds_are_those_completed_when_the_model_was_scored() -> None:
    rounds, scores = site_scores([entry(1, a=0.1), entry(2, a=0.5)], "global")
    assert rounds == [0, 1]
    assert scores == {"a": [0.1, 0.5]}


def test_a_missing_site_keeps_its_last_score() -> None:
    curve = validation_curve(
        [[entry(1, a=0.2, b=0.4), entry(2, a=0.6), entry(3, a=0.6, b=0.8)]], "m", "global", "m", False
    )
    assert curve is not None
    assert curve.mean == pytest.approx([0.3, 0.5, 0.7])


def test_a_site_that_joins_late_counts_from_then_on() -> None:
    curve = validation_curve([[entry(1, a=0.2), entry(2, a=0.4, b=0.8)]], "m", "global", "m", False)
    assert curve is not None
    assert curve.mean == pytest.approx([0.2, 0.6])


def test_best_so_far_is_per_site_for_personal_models_and_of_the_mean_for_shared_ones() -> None:
    records = [entry(1, a=0.9, b=0.1), entry(2, a=0.3, b=0.5), entry(3, a=0.1, b=0.1)]
    shared = validation_curve([records], "m", "global", "m", per_site=False)
    personal = validation_curve([records], "m", "global", "m", per_site=True)
    assert shared is not None and personal is not None
    assert shared.best == pytest.approx([0.5, 0.5, 0.5])
    assert personal.best == pytest.approx([0.5, 0.7, 0.7])


def test_seeds_are_averaged_and_one_that_stopped_early_keeps_its_last_value() -> None:
    curve = validation_curve([[entry(1, a=0.2), entry(2, a=0.4)], [entry(1, a=0.4)]], "m", "global", "m", False)
    assert curve is not None
    assert curve.rounds == [0, 1]
    assert curve.mean == pytest.approx([0.3, 0.4])


def test_scores_that_are_not_numbers_are_passed_over() -> None:
    curve = validation_curve([[entry(1, a=None), entry(2, a=0.4), entry(3, a=math.nan)]], "m", "global", "m", False)
    assert curve is not None
    assert curve.rounds == [1]
    assert validation_curve([[entry(1, a=None)]], "m", "global", "m", False) is None


def test_roles_come_from_the_history() -> None:
    assert roles_of(history("fedsm")) == ["global", "personal", "selector"]
    assert roles_of(history("local")) == ["personal"]


def test_the_figure_draws_the_curve() -> None:
    curve = validation_curve([history("fedavg")], "FedAvg", "global", "FedAvg", False)
    assert curve is not None
    made = training_curves(
        [curve], {"Centralized": 0.91}, colors_of({"FedAvg": "fedavg", "Centralized": "centralized"})
    )
    lines = made.axes[0].lines
    assert list(lines[1].get_xdata()) == curve.rounds
    assert list(lines[1].get_ydata()) == curve.best
    assert set(lines[2].get_ydata()) == {0.91}
    assert len(curve.rounds) == len(history("fedavg"))
    assert SITES[0] not in to_svg(made, "x")


def test_the_frame_holds_the_end_of_every_line() -> None:
    good = validation_curve([[entry(1, a=0.1), entry(2, a=0.9)]], "good", "global", "good", False)
    poor = validation_curve([[entry(1, a=0.05), entry(2, a=0.2)]], "poor", "global", "poor", False)
    assert good is not None and poor is not None
    made = training_curves([good, poor], {}, {"good": "#000000", "poor": "#111111"})
    low, high = made.axes[0].get_ylim()
    assert low < 0.2 < 0.9 < high


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.2))
def test_labels_keep_their_distance_and_order(values: list[float], gap: float) -> None:
    places = spread(sorted(values), gap, 0.0, 1.0)
    assert all(after - before >= gap - 1e-9 for before, after in zip(places, places[1:], strict=False))
    if (len(values) - 1) * gap <= 1:
        assert places[0] >= -1e-9 and places[-1] <= 1 + 1e-9


def test_the_names_of_many_curves_stay_inside_the_frame() -> None:
    curves = [
        validation_curve([[entry(1, a=0.1), entry(2, a=0.9 + n / 1000)]], f"m{n}", "global", f"m{n}", False)
        for n in range(35)
    ]
    made = training_curves(curves, {}, {f"m{n}": "#000000" for n in range(35)})  # type: ignore[arg-type]
    made.draw_without_rendering()
    names = [text.get_window_extent() for text in made.axes[0].texts]
    frame = made.axes[0].get_window_extent()
    assert len(names) == 35
    assert min(name.y0 for name in names) > frame.y0 - 20 and max(name.y1 for name in names) < frame.y1 + 20
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in zip(names, names[1:], strict=False))  # none on another


@pytest.mark.parametrize(
    ("count", "name"), [(3, "m"), (17, "FedSM-ensemble"), (33, "FedSM, selector.optimizer=synced-moments")]
)
def test_the_legend_of_many_methods_stays_inside_the_figure(count: int, name: str) -> None:
    scores = {f"{name}{n}": {"site": 0.5 + n / 100} for n in range(count)}
    made = site_dots(scores, ["site"], dict.fromkeys(scores, "#000000"), [])
    made.draw_without_rendering()
    (legend,) = made.legends
    box, frame = legend.get_window_extent(), made.bbox
    assert box.x1 <= frame.x1 and box.y0 > made.axes[0].get_window_extent().y1
    assert made.axes[0].get_window_extent().height > 20


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([0.1, 0.5, 0.9], 0.05, 0.0, 1.0) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5], 0.1, 0.0, 1.0) == pytest.approx([0.45, 0.55])


def test_long_names_keep_their_endings() -> None:
    assert short("site-1") == "site-1"
    assert short("university-hospital-of-somewhere-12", 16).endswith("here-12")
    assert len(short("x" * 99, 16)) == 16
