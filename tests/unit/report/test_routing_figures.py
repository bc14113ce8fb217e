"""The routing figures draw what they are given."""

from fedsuper.report.figures.routing import routing_heat_map, time_curve
from fedsuper.report.figures.style import to_png


def test_heat_map_has_a_cell_per_layer_and_expert():
    made = routing_heat_map({"enc.0": [0.2, 0.8], "enc.1": [0.5, 0.5], "head": [0.9, 0.1]}, ["global", "A"])
    (axes,) = made.axes
    texts = {text.get_text() for text in axes.texts}
    assert {"0.200", "0.800", "0.500", "0.900", "0.100"} <= texts
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]
    assert to_png(made)[:4] == b"\x89PNG"


def test_an_even_matrix_can_be_drawn():
    assert to_png(routing_heat_map({"only": [0.5, 0.5]}, ["global", "A"]))


def test_time_curve_shows_dice_against_seconds_with_references():
    points = [{"seconds": 0.1 * n, "dice": 0.5 + 0.1 * n, "spread": 0.05} for n in range(3)]
    (axes,) = time_curve(points, {"global": 0.4}).axes
    line = axes.lines[0]
    assert list(line.get_ydata()) == [0.5, 0.6, 0.7] and list(line.get_xdata()) == [0.0, 0.1, 0.2]
    assert [text.get_text() for text in axes.texts] == ["global"]
