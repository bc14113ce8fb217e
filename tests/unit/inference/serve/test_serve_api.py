"""The page's answers, without a browser: who is let in, what is refused, and that the mask is `predict`'s mask."""

from __future__ import annotations

import io
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image as Pillow
from starlette.testclient import TestClient
from super_models import PROSTATE, constant_super_model, random_super_model

from fedsuper.data.images.io import read_image
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.segment import segment
from fedsuper.inference.serve.app import build_app
from fedsuper.inference.serve.gatekeeper import Door
from fedsuper.inference.serve.uploads import plain_name

MARK = {"X-FedSuper": "page"}
HERE = "http://127.0.0.1:8000"


def photograph(seed: int = 0, size: tuple[int, int] = (40, 52)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Pillow.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def empty_png(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds nothing."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where uploads lie while they are read; empty again after every request."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


@pytest.fixture
def predictor() -> Predictor:
    return Predictor(random_super_model())


@pytest.fixture
def page(predictor: Predictor, scratch: Path) -> TestClient:
    return TestClient(build_app(predictor), base_url=HERE, headers=MARK)


def post(page: TestClient, *files: tuple[str, bytes], mode: str = "select") -> dict:
    reply = page.post(f"/api/images?mode={mode}", files=[("files", file) for file in files])
    assert reply.status_code == 200, reply.text
    return reply.json()


def refusal(page: TestClient, *files: tuple[str, bytes]) -> str:
    reply = page.post("/api/images", files=[("files", file) for file in files])
    assert reply.status_code in (413, 422), reply.text
    problem = reply.json()["problem"]
    assert "\n" not in problem and "/" not in problem.replace("fedsuper predict", "")
    return problem


def test_the_mask_is_the_mask_of_predict(page: TestClient, predictor: Predictor, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(photograph())
    expected = segment(predictor, read_image(tmp_path / "a.png"), "select")
    told = post(page, ("a.png", photograph()))
    assert ["Familiarity", "this super model cannot tell"] in told["facts"]
    assert told["models"] == list(dict.fromkeys(expected.chosen))
    assert expected.selector is not None
    shown = [entry["probability"] for entry in told["probabilities"]]
    assert shown == pytest.approx(expected.selector[0].tolist()) and sum(shown) == pytest.approx(1)
    mask = page.get(f"/api/images/{told['image']}/file?mode=select")
    assert 'filename="a-mask.png"' in mask.headers["content-disposition"]
    assert (np.asarray(Pillow.open(io.BytesIO(mask.content))) == expected.labels[0]).all()


def test_a_volume_keeps_its_geometry(scratch: Path, tmp_path: Path) -> None:
    affine = np.array([[0, 0.6, 0, 5], [0.7, 0, 0, -3], [0, 0, 3.0, 8], [0, 0, 0, 1]])
    voxels = np.random.default_rng(0).normal(100, 30, (30, 24, 5)).astype(np.float32)
    nibabel.Nifti1Image(voxels, affine).to_filename(tmp_path / "scan.nii.gz")
    page = TestClient(build_app(Predictor(random_super_model(task=PROSTATE))), base_url=HERE, headers=MARK)
    told = post(page, ("scan.nii.gz", (tmp_path / "scan.nii.gz").read_bytes()))
    assert told["slices"] == 5
    assert page.get(f"/api/images/{told['image']}/slices/4.png").headers["content-type"] == "image/png"
    assert page.get(f"/api/images/{told['image']}/slices/5.png").status_code == 422
    (tmp_path / "back.nii.gz").write_bytes(page.get(f"/api/images/{told['image']}/file?mode=select").content)
    mask = nibabel.load(tmp_path / "back.nii.gz")
    assert mask.shape == voxels.shape and np.allclose(mask.affine, affine)


def test_another_mode_and_where_it_differs(scratch: Path) -> None:
    answers = {"global": (False, False), "A": (True, True), "B": (True, False)}
    model = constant_super_model(answers, {"A": 0.9, "B": 0.1})
    page = TestClient(build_app(Predictor(model)), base_url=HERE, headers=MARK)
    told = post(page, ("a.png", photograph()))
    assert told["models"] == ["A"] and "0.900" in told["why"]
    key = told["image"]
    asked = page.get(f"/api/images/{key}/agreement?mode=select&other=global")
    assert asked.status_code == 422 and "not predicted" in asked.json()["problem"]
    other = page.post(f"/api/images/{key}/answers?mode=global").json()
    assert other["models"] == ["global"] and other["known"] == ["select", "global"]
    assert page.get(f"/api/images/{key}/agreement?mode=select&other=global").json() == {"dice": 0.0}
    assert page.get(f"/api/images/{key}/agreement?mode=select&other=select").json() == {"dice": 1.0}
    difference = page.get(f"/api/images/{key}/differences/0.png?mode=select&other=global").content
    assert (np.asarray(Pillow.open(io.BytesIO(difference)))[..., 3] == 255).all()


def test_an_unsure_selector_says_so(scratch: Path) -> None:
    model = constant_super_model({"global": (True, False), "A": (True, True), "B": (True, False)}, {"A": 0.5, "B": 0.5})
    page = TestClient(build_app(Predictor(model)), base_url=HERE, headers=MARK)
    told = post(page, ("a.png", photograph()))
    assert told["models"] == ["global"] and "unsure" in told["why"]


def test_the_gate_that_counts_the_cost_names_no_threshold(scratch: Path) -> None:
    model = constant_super_model({"global": (True, False), "A": (True, True), "B": (True, False)}, {"A": 0.9, "B": 0.1})
    model.manifest["study"]["selector"]["gate"] = "expected-dice"
    model.manifest["utility"] = {"experts": ["global", "A", "B"], "temperature": 1.0, "images": {"A": 20, "B": 20},
                                 "dice": {"A": [0.9, 0.6, 0.5], "B": [0.8, 0.5, 0.6]}}
    told = post(TestClient(build_app(Predictor(model)), base_url=HERE, headers=MARK), ("a.png", photograph()))
    assert told["models"] == ["global"] and told["gamma"] is None
    assert "most like A (0.900)" in told["why"] and "best for the global model" in told["why"]
    assert "threshold" not in told["why"] and "unsure" not in told["why"]


HOSTILE = {
    "text": ("notes.png", b"hello"),
    "an unknown ending": ("notes.xyz", b"hello"),
    "an empty file": ("a.png", b""),
    "60,000 x 60,000 pixels": ("a.png", empty_png(60000, 60000)),
    "a torn PNG": ("a.png", photograph()[:200]),
    "a torn volume": ("a.nii.gz", b"\x1f\x8b" + b"0" * 50),
    "a pickle": ("a.png", b"\x80\x04\x95cos\nsystem\n"),
    "a path for a name": ("../../etc/passwd", b"x"),
    "a name of control characters": ("\x07\x08.png", b"x"),
}


@pytest.mark.parametrize("file", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_image_is_refused_in_one_line(page: TestClient, file: tuple[str, bytes]) -> None:
    assert refusal(page, file)


def test_two_images_at_once_are_refused(page: TestClient) -> None:
    assert "2 images" in refusal(page, ("a.png", photograph()), ("b.png", photograph(1)))


def test_nothing_at_all_is_refused(page: TestClient) -> None:
    reply = page.post("/api/images", data={"x": "1"})
    assert reply.status_code == 422 and "no file" in reply.json()["problem"]


def test_names_never_become_paths() -> None:
    assert plain_name("../../etc/passwd") == "passwd"
    assert plain_name("C:\\a\\b c.png") == "b_c.png"
    assert plain_name("....") == "image"


@pytest.mark.parametrize("lie", [False, True], ids=["told", "counted"])
def test_an_upload_has_a_limit(predictor: Predictor, scratch: Path, lie: bool) -> None:
    page = TestClient(build_app(predictor, Door(upload_mb=1)), base_url=HERE, headers=MARK)
    body = b"0" * 1_200_000

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    headers = {"content-type": "multipart/form-data; boundary=x"}
    head = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    content = (part for part in [head, *chunks()]) if lie else head + body
    reply = page.post("/api/images", content=content, headers=headers)
    assert reply.status_code == 413 and "1 MB" in reply.json()["problem"]


def test_other_hosts_are_not_answered(page: TestClient) -> None:
    assert page.get("/api/model", headers={"host": "evil.example"}).status_code == 421
    assert page.get("/api/model", headers={"host": "localhost:8000"}).status_code == 200
    assert page.get("/api/model", headers={"host": "[::1]:8000"}).status_code == 200


def test_foreign_pages_cannot_post(predictor: Predictor, scratch: Path) -> None:
    page = TestClient(build_app(predictor), base_url=HERE)
    assert page.post("/api/images", files={"files": ("a.png", photograph())}).status_code == 403


def test_outside_loopback_a_token_is_needed(predictor: Predictor) -> None:
    page = TestClient(build_app(predictor, Door(hosts=None, token="secret")), base_url="http://ward-7:8000")
    assert page.get("/").status_code == 401
    assert page.get("/?token=wrong").status_code == 401
    assert page.get("/?token=secret", follow_redirects=True).status_code == 200
    assert page.get("/api/model").status_code == 200  # by the cookie from now on
    strange = "of/another/page=1; broken; fedsuper-token="
    assert page.get("/api/model", headers={"cookie": f"{strange}secret"}).status_code == 200
    assert page.get("/api/model", headers={"cookie": f"{strange}wrong"}).status_code == 401


def test_every_answer_forbids_foreign_code(page: TestClient) -> None:
    for path in ("/", "/page.js", "/api/model", "/nothing"):
        policy = page.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_the_page_itself_names_no_other_address(page: TestClient) -> None:
    for name in ("/", "/page.js", "/page.css"):
        text = page.get(name).text
        assert "http://" not in text and "https://" not in text and "innerHTML" not in text


def test_old_images_make_room(page: TestClient) -> None:
    first = post(page, ("a.png", photograph()))["image"]
    for seed in range(1, 9):
        post(page, (f"{seed}.png", photograph(seed)))
    gone = page.get(f"/api/images/{first}/slices/0.png")
    assert gone.status_code == 422 and "drop it again" in gone.json()["problem"]
