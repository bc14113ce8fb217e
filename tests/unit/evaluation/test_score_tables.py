"""The printed table."""

from __future__ import annotations

from fedsuper.evaluation.text_tables import results_table, text_table


def metrics(seeds: list[int]) -> dict:
    def method(a: float, b: float | None, spread: float) -> dict:
        sites = {"A": {"mean": a}} | ({"B": {"mean": b}} if b is not None else {})
        return {"per_site": sites, "client_avg": a, "global": a, "std": {"client_avg": spread, "global": spread}}

    return {"seeds": seeds, "methods": {"fedavg": method(0.81239, 0.7, 0.01), "fedsm": method(0.9, 0.6, 0.02),
                                        "other": method(0.5, None, 0.0)}}


def test_best_of_each_column_is_marked_and_gaps_are_shown() -> None:
    lines = results_table(metrics([0])).splitlines()
    assert lines[0].split() == ["method", "A", "B", "client", "avg", "global"]
    assert lines[2].split() == ["fedavg", "0.812", "0.700*", "0.812", "0.812"]
    assert lines[3].split() == ["fedsm", "0.900*", "0.600", "0.900*", "0.900*"]
    assert lines[4].split() == ["other", "0.500", "-", "0.500", "0.500"]


def test_several_seeds_show_their_spread() -> None:
    assert "±0.020" in results_table(metrics([0, 1])) and "±" not in results_table(metrics([0]))


def test_columns_line_up() -> None:
    lines = text_table(["name", "value"], [["a", "1"], ["longer name", "12345678"]]).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_local_models_have_a_row_at_all_sites() -> None:
    """FedSM's Table 3, "Client k Local": the mean over sites and over images of one site's model everywhere."""
    found = {"per_site": {"A": {"mean": 0.9}, "B": {"mean": 0.8}}, "client_avg": 0.85, "global": 0.875,
             "images": {"A": 3, "B": 1}, "site_by_model": {"A": {"A": 0.9, "B": 0.5}, "B": {"A": 0.4, "B": 0.8}}}
    table = results_table({"methods": {"fedavg": found, "local": found}})
    assert table.count("A's model") == 1, "other methods keep one row"
    row = next(line for line in table.splitlines() if "A's model" in line)
    assert row.split()[2:] == ["0.900", "0.500", "0.700", "0.800"]
