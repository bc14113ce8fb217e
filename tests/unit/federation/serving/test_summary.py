"""What may leave a site rests on at least five patients, whatever the site's images are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedsuper.federation.serving.request import MINIMUM
from fedsuper.federation.serving.summary import OTHER, Segmented, summarize

rows = st.lists(
    st.builds(
        Segmented,
        case=st.sampled_from([f"p{number}" for number in range(12)]),
        model=st.sampled_from(["global", "A", "B", "C"]),
        confidence=st.floats(0, 1),
        review=st.booleans(),
        dice=st.none() | st.fixed_dictionaries({"disc": st.floats(0, 1)}),
    ),
    max_size=40,
)


@given(rows, st.integers(0, 9))
def test_no_figure_rests_on_fewer_than_five_patients(found: list[Segmented], failed: int) -> None:
    told = summarize(found, failed, 1.0)
    patients = {row.case for row in found}
    if len(patients) < MINIMUM:
        assert told.model_dump(exclude={"seconds"}) == dict.fromkeys(told.model_dump(exclude={"seconds"}))
        return
    assert told.images == len(found) and told.shares is not None
    assert abs(sum(told.shares.values()) - 1) < 1e-9
    for model in told.shares:
        if model != OTHER:
            assert len({row.case for row in found if row.model == model}) >= MINIMUM
    hidden = {row.case for row in found if row.model not in told.shares}
    counted = sum(len({row.case for row in found if row.model == model}) for model in {"global", "A", "B", "C"} -
                  set(told.shares))
    assert (OTHER in told.shares) == bool(hidden)
    assert not hidden or counted >= MINIMUM or len(told.shares) == 1
    labeled = [row for row in found if row.dice is not None]
    assert (told.dice is not None) == (len({row.case for row in labeled}) >= MINIMUM)
    looked = [row.case for row in found if row.review]
    assert told.review == (len(looked) if not looked or len(set(looked)) >= MINIMUM else None)
    assert told.failed == (failed if failed == 0 or failed >= MINIMUM else None)


def test_a_site_may_ask_for_more_patients_than_five() -> None:
    found = [Segmented(f"p{i}", "A", 0.5, True, {"disc": 0.5}) for i in range(8)]
    told, withheld = summarize(found, 8, 1.0, minimum=8), summarize(found, 8, 1.0, minimum=9)
    assert (told.images, told.review, told.failed, told.labeled) == (8, 8, 8, 8)
    assert withheld.model_dump(exclude={"seconds"}) == dict.fromkeys(withheld.model_dump(exclude={"seconds"}))


def test_the_images_of_one_patient_are_one_patient() -> None:
    one = [Segmented("p1", "global", 0.9, False, {"disc": 0.5}) for _ in range(30)]
    assert summarize(one, 0, 1.0).images is None


def test_means_go_over_images() -> None:
    found = [Segmented(f"p{i}", "A" if i < 6 else "B", i / 10, False, {"disc": i / 10, "cup": 0.0}) for i in range(10)]
    told = summarize(found, 0, 2.0)
    assert told.shares == {OTHER: 1.0}  # B is rare, and without A it would stand alone
    assert told.dice is not None and abs(told.dice["disc"] - 0.45) < 1e-12 and abs(told.dice["mean"] - 0.225) < 1e-12
    assert told.confidence is not None and abs(told.confidence - 0.45) < 1e-12
