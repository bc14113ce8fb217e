"""The papers' orderings are judged by numbers: known shifts get the verdict they deserve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedsuper.config.reading import parse_study
from fedsuper.errors import FedSuperError
from fedsuper.methods import METHODS
from fedsuper.studies.compare import variant
from fedsuper.studies.orderings import BATCH, CLAIMS, FURTHER_ROWS, Claim, findings, main, orderings_markdown


def write_scores(folder: Path, shifts: dict[str, list[float]]) -> Path:
    """Two sites of unequal size; a row's score is the image's base, a little noise, and the seed's shift."""
    lines = ["method,seed,site,image,case,mean,model"]
    base = np.random.default_rng(0).uniform(0.6, 0.8, 60)
    for row, by_seed in shifts.items():
        for seed, shift in enumerate(by_seed):
            noise = np.random.default_rng([seed, len(row)]).normal(0, 0.01, 60)
            for number in range(60):
                site = "small" if number < 12 else "large"
                score = base[number] + noise[number] + shift
                lines.append(f"{row},{seed},{site},im-{number},case-{number // 2},{score:.6f},global")
    (folder / "per_image.csv").write_text("\n".join(lines) + "\n")
    return folder


CLAIM = Claim("a paper", "fedsm", "fedavg", 0.02)


@pytest.mark.parametrize(
    ("shifts", "verdict", "agreeing"),
    [
        ([0.05, 0.04, 0.06], "holds", 3),
        ([-0.05, -0.04, -0.06], "reversed", 0),
        ([0.3, 0.2, -0.02], "open", 2),  # sure of the mean, but a seed disagrees
        ([0.0005, 0.0005, 0.0005], "open", None),  # below what the images can tell
    ],
)
def test_a_claim_gets_the_verdict_its_numbers_deserve(
    shifts: list[float], verdict: str, agreeing: int | None, tmp_path: Path
) -> None:
    (found,) = findings(write_scores(tmp_path, {"fedavg": [0.0] * 3, "fedsm": shifts}), [CLAIM])
    assert found.verdict == verdict and found.seeds == 3
    assert found.ours == pytest.approx(np.mean(shifts), abs=0.005)
    assert found.low < found.ours < found.high
    assert agreeing is None or found.seeds_agreeing == agreeing


def test_the_difference_is_that_of_client_averages(tmp_path: Path) -> None:
    """The small site counts as much as the large one."""
    lines = ["method,seed,site,image,case,mean,model"]
    for row, small, large in (("fedavg", 0.5, 0.5), ("fedsm", 0.9, 0.4)):
        lines += [f"{row},0,small,a,a,{small},global"] + [f"{row},0,large,b{n},b{n},{large},global" for n in range(9)]
    (tmp_path / "per_image.csv").write_text("\n".join(lines) + "\n")
    (found,) = findings(tmp_path, [CLAIM])
    assert found.ours == pytest.approx((0.4 - 0.1) / 2)


def test_the_same_scores_are_called_equal(tmp_path: Path) -> None:
    (tmp_path / "per_image.csv").write_text(
        "method,seed,site,image,case,mean,model\nfedsm,0,a,x,x,0.7,global\nfedavg,0,a,x,x,0.7,global\n"
    )
    assert findings(tmp_path, [CLAIM])[0].verdict == "equal"


def test_rows_that_were_not_trained_make_no_claim(tmp_path: Path) -> None:
    write_scores(tmp_path, {"fedavg": [0.0], "fedsm": [0.1]})
    assert [found.claim.worse for found in findings(tmp_path)] == ["fedavg"]
    write_scores(tmp_path, {"fedavg": [0.0]})
    with pytest.raises(FedSuperError, match="no claim"):
        findings(tmp_path)


def test_rows_without_a_common_seed_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "per_image.csv").write_text(
        "method,seed,site,image,case,mean,model\nfedsm,0,a,x,x,0.7,global\nfedavg,1,a,x,x,0.7,global\n"
    )
    with pytest.raises(FedSuperError, match="share no seed"):
        findings(tmp_path, [CLAIM])


def test_every_claim_is_about_rows_that_make_compare_trains() -> None:
    rows = {*METHODS, *FURTHER_ROWS}
    assert {name for claim in CLAIMS for name in (claim.better, claim.worse)} <= rows
    study = parse_study({})
    assert all(variant(study, row).method == row.partition("+")[0] for row in rows)
    assert variant(study, f"fedbn{BATCH}").model.norm == "batch"
    assert all(claim.theirs is None or claim.theirs > 0 for claim in CLAIMS)


def test_the_command_prints_the_table_and_keeps_it(tmp_path: Path, capsys) -> None:
    write_scores(tmp_path, {"fedavg": [0.0] * 3, "fedsm": [0.05, 0.04, 0.06]})
    assert main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| FedSM Table 3 | fedsm > fedavg | +0.020 | +0.047 |" in printed and "| 3 of 3 | holds |" in printed
    assert (tmp_path / "orderings.md").read_text() == orderings_markdown(findings(tmp_path))
    assert main([str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["--rows"]) == 0
    assert capsys.readouterr().out.startswith("all,fedsm+personal=ft,")
