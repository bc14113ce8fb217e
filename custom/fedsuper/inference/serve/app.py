"""The page's routes. Everything under /api answers JSON or PNG; a problem is one line with a status that fits it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fedsuper.data.images.masks import ENDINGS, write_mask
from fedsuper.errors import FedSuperError
from fedsuper.inference.predictor import Predictor
from fedsuper.inference.serve import overlays
from fedsuper.inference.serve.answers import answer, offered_modes
from fedsuper.inference.serve.gatekeeper import Door, Gatekeeper
from fedsuper.inference.serve.shelf import Shelf, Shelved
from fedsuper.inference.serve.uploads import MOST_FILES, read_upload

PAGE = Path(__file__).with_name("page")
Result = TypeVar("Result")


class Desk:
    """The super model behind the page. One prediction at a time: a second would only slow the first."""

    def __init__(self, predictor: Predictor, door: Door) -> None:
        self.predictor = predictor
        self.door = door
        self.shelf = Shelf()
        self.modes = offered_modes(predictor)
        self._lock = threading.Lock()

    # --- what the page asks for ------------------------------------------------------------------------------------

    async def model(self, request: Request) -> Response:
        """What is being served."""
        model = self.predictor.super_model
        regions = ", ".join(self.predictor.task.regions)
        method = model.manifest.get("method", "a super model")
        about = f"{method} for {regions}, trained by {len(model.sites)} hospitals"
        return JSONResponse({"about": about, "modes": self.modes, "mode": self.modes[0]["name"],
                             "upload_mb": self.door.upload_mb})

    async def upload(self, request: Request) -> Response:
        """Read an image and predict it."""
        mode = self._mode(request)
        async with request.form(max_files=MOST_FILES, max_fields=4) as form:
            files = [(part.filename or "image", part.file) for part in form.getlist("files")
                     if isinstance(part, UploadFile)]
            name, image = await self._work(lambda: read_upload(files))
        item = Shelved(name, image)
        told = await self._work(lambda: self._predict(item, mode))
        return JSONResponse({"image": self.shelf.put(item)} | told)

    async def predict(self, request: Request) -> Response:
        """Another mode for an image that is here."""
        item, mode = self._item(request), self._mode(request)
        return JSONResponse(await self._work(lambda: self._predict(item, mode)))

    async def slice(self, request: Request) -> Response:
        """One slice of the image."""
        item, number = self._item(request), self._number(request)
        return await self._png(lambda: overlays.slice_png(item.image.array[number]))

    async def mask(self, request: Request) -> Response:
        """One slice of a mode's mask."""
        labels, number = self._labels(request, "mode"), self._number(request)
        return await self._png(lambda: overlays.mask_png(labels[number]))

    async def difference(self, request: Request) -> Response:
        """Where two modes' masks differ on one slice."""
        ours, theirs, number = self._labels(request, "mode"), self._labels(request, "other"), self._number(request)
        return await self._png(lambda: overlays.difference_png(ours[number], theirs[number]))

    async def agreement(self, request: Request) -> Response:
        """How far two modes' masks agree, over the whole image."""
        ours, theirs = self._labels(request, "mode"), self._labels(request, "other")
        return JSONResponse({"dice": await self._work(lambda: overlays.agreement(ours, theirs))})

    async def file(self, request: Request) -> Response:
        """The mask as a file in the image's own geometry."""
        item, labels = self._item(request), self._labels(request, "mode")
        ending = ENDINGS["png" if item.image.affine is None else "nifti"][0]

        def written() -> bytes:
            with tempfile.TemporaryDirectory(prefix="fedsuper-mask-") as folder:
                path = Path(folder) / f"mask{ending}"
                write_mask(path, labels, item.image)
                return path.read_bytes()

        name = f"{item.name.partition('.')[0] or 'image'}-mask{ending}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(await self._work(written), media_type="application/octet-stream", headers=headers)

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _predict(self, item: Shelved, mode: str) -> dict[str, Any]:
        if mode not in item.answers:
            item.answers[mode] = answer(self.predictor, item.image, mode)
        return item.answers[mode].told | {"name": item.name, "known": list(item.answers)}

    async def _work(self, work: Callable[[], Result]) -> Result:
        def alone() -> Result:
            with self._lock:
                return work()

        return await run_in_threadpool(alone)

    async def _png(self, draw: Callable[[], bytes]) -> Response:
        return Response(await run_in_threadpool(draw), media_type="image/png")

    def _mode(self, request: Request) -> str:
        mode = request.query_params.get("mode", self.modes[0]["name"])
        if mode not in [known["name"] for known in self.modes]:
            raise FedSuperError(f"mode '{mode[:80]}' is not offered here; choose one from the list")
        return mode

    def _item(self, request: Request) -> Shelved:
        return self.shelf.get(request.path_params["image"])

    def _labels(self, request: Request, key: str) -> Any:
        return self._item(request).answer(request.query_params.get(key, "")).labels

    def _number(self, request: Request) -> int:
        number: int = request.path_params["number"]
        slices = self._item(request).image.stack_shape[0]
        if not 0 <= number < slices:
            raise FedSuperError(f"slice {number}: the image has slices 0 to {slices - 1}")
        return number


def build_app(predictor: Predictor, door: Door | None = None) -> Starlette:
    """The page over a super model, ready for any ASGI server."""
    door = door or Door()
    desk = Desk(predictor, door)
    one = "/api/images/{image}"
    routes = [
        Route("/api/model", desk.model),
        Route("/api/images", desk.upload, methods=["POST"]),
        Route(f"{one}/answers", desk.predict, methods=["POST"]),
        Route(one + "/slices/{number:int}.png", desk.slice),
        Route(one + "/masks/{number:int}.png", desk.mask),
        Route(one + "/differences/{number:int}.png", desk.difference),
        Route(f"{one}/agreement", desk.agreement),
        Route(f"{one}/file", desk.file),
        Mount("/", StaticFiles(directory=PAGE, html=True)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gatekeeper, door=door)],
        exception_handlers={FedSuperError: _problem, HTTPException: _refused, MemoryError: _too_big},
    )


async def _problem(request: Request, error: Exception) -> Response:
    return JSONResponse({"problem": str(error)}, status_code=422)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"problem": str(error.detail)}, status_code=error.status_code)


async def _too_big(request: Request, error: Exception) -> Response:
    return JSONResponse({"problem": "the image does not fit into this machine's memory"}, status_code=413)
