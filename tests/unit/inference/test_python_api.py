"""The public Python API: its document runs, importing it is light, results print in a line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from predict_inputs import picture, saved, volume
from super_models import PROSTATE, constant_super_model, random_super_model

import fedsuper
from fedsuper.data.images.io import read_image
from fedsuper.data.synthetic.retina import write_retina
from fedsuper.errors import FedSuperError
from fedsuper.inference.predict.predict_paths import predict_paths

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "python.md"


def test_the_documents_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_retina(tmp_path / "data", 2, 16, size=64, seed=0, difficulty="easy")
    _rename_first_site(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    assert read_image(Path("0001-mask.png")).size == (64, 64)


def _rename_first_site(root: Path) -> None:
    site = sorted(path for path in root.iterdir() if path.is_dir())[0].rename(root / "A")
    for folder in ("images", "labels"):
        first = sorted((site / folder).iterdir())[0]
        first.rename(first.with_name("0001.png"))


def test_train_can_be_called_before_and_after_the_room_of_that_name_is_imported() -> None:
    code = (
        "import fedsuper, inspect; names = list(inspect.signature(fedsuper.train).parameters)\n"
        "import fedsuper.train.loop\n"
        "assert names[:3] == ['study', 'data', 'out'] and callable(fedsuper.train)\n"
        "try: fedsuper.train({'method': 'nonsense'}, 'data', 'out')\n"
        "except fedsuper.errors.FedSuperError as problem: print('nonsense' in str(problem))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "True\n"


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = {"torch", "monai", "nvflare", "numpy", "pydantic", "yaml", "PIL"}
    code = f"import sys, fedsuper; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_a_result_is_what_the_command_writes(tmp_path: Path) -> None:
    folder = saved(random_super_model(["A", "B"]), tmp_path / "sm")
    image = picture(tmp_path / "x.png", (41, 30))
    predict_paths(folder, [image], tmp_path / "out")
    result = fedsuper.load(folder).predict(str(image))
    written = read_image(tmp_path / "out" / "x.png").array[0, 0]
    assert np.array_equal(result.mask, written) and result.mask.shape == (30, 41)
    assert result.probabilities.shape == (2, 30, 41) and result.regions == ("disc", "cup")
    assert set(result.sites) == {"A", "B"} and result.confidence == max(result.sites.values())
    result.save(tmp_path / "mine.png")
    assert (tmp_path / "mine.png").read_bytes() == (tmp_path / "out" / "x.png").read_bytes()


def test_a_volumes_mask_has_the_files_axes(tmp_path: Path) -> None:
    folder = saved(random_super_model(["A", "B"], task=PROSTATE), tmp_path / "sm")
    scan = volume(tmp_path / "scan.nii.gz", (24, 28, 6))
    result = fedsuper.load(folder).predict(scan)
    assert result.mask.shape == (24, 28, 6) and result.probabilities.shape == (1, 24, 28, 6)
    predict_paths(folder, [scan], tmp_path / "out")
    result.save(tmp_path / "mine.nii.gz")
    both = [read_image(path).array for path in (tmp_path / "out" / "scan.nii.gz", tmp_path / "mine.nii.gz")]
    assert np.array_equal(*both)


@pytest.mark.parametrize(("shape", "task", "mask"), [
    ((20, 24), "retina", (20, 24)),
    ((20, 24, 3), "retina", (20, 24)),
    ((20, 24, 1), "prostate", (20, 24)),
    ((5, 20, 24), "prostate", (5, 20, 24)),
    ((2, 3, 20, 24), "retina", (2, 20, 24)),
])
def test_arrays_keep_their_shape(tmp_path: Path, shape: tuple, task: str, mask: tuple) -> None:
    model = random_super_model(["A", "B"]) if task == "retina" else random_super_model(["A", "B"], task=PROSTATE)
    loaded = fedsuper.load(saved(model, tmp_path / "sm"))
    result = loaded.predict(np.random.default_rng(0).uniform(0, 255, shape))
    assert result.mask.shape == mask and result.probabilities.shape[1:] == mask
    with pytest.raises(FedSuperError, match="came as an array"):
        result.save(tmp_path / "x.png")


@pytest.mark.parametrize("array", [np.zeros((0, 4)), np.array(["a"]), np.zeros(5), np.full((8, 8), np.nan)])
def test_arrays_that_are_no_image(tmp_path: Path, array: np.ndarray) -> None:
    loaded = fedsuper.load(saved(random_super_model(["A"]), tmp_path / "sm"))
    with pytest.raises(FedSuperError, match="predict: "):
        loaded.predict(array)


def test_what_a_super_model_cannot_tell_is_none(tmp_path: Path) -> None:
    model = constant_super_model({"global": [True, True]}, mode="global")
    result = fedsuper.load(saved(model, tmp_path / "sm")).predict(np.zeros((16, 16, 3), np.uint8))
    assert result.sites == {} and result.confidence is None and result.familiarity is None and result.review == ""


def test_a_notebook_prints_lines_not_weights(tmp_path: Path) -> None:
    loaded = fedsuper.load(saved(random_super_model(["A", "B"]), tmp_path / "sm"))
    for shown in (repr(loaded), repr(loaded.predict(np.zeros((16, 16, 3))))):
        assert len(shown) < 300 and "tensor" not in shown and "array" not in shown
