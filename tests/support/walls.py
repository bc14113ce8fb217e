"""Who may import whom. Data flows one way: cli, studies, engines, federation, methods, train, models and data, core."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "custom" / "fedsuper"
MODULES = sorted(PACKAGE.rglob("*.py"))

SHARED = {"errors", "files", "schema", "display"}  # single files that every room may use
PUBLIC = {"__init__.py", "api.py"}  # the door of the house: may call any room, and no room calls it
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "data": set(),
    "models": {"core", "config"},
    "config": {"data", "models", "methods", "inference"},
    "train": {"core", "data", "models", "config"},
    "methods": {"core", "data", "models", "train", "config"},
    "inference": {"core", "data", "models", "train", "config"},
    "evaluation": {"core", "data", "models", "train", "inference", "config"},
    "federation": {"core", "data", "models", "train", "methods", "inference", "evaluation", "config"},
    "engines": {"core", "data", "train", "methods", "inference", "evaluation", "federation", "config"},
    "report": {"core", "data", "inference", "evaluation", "config"},
    "studies": set("core data models train methods inference evaluation federation engines report config".split()),
    "bench": set("core data models train methods inference evaluation federation engines studies config".split()),
    "cli": set("data methods inference evaluation engines report studies bench config".split()),
}
# Of a room that is open only in part: the files that may be imported from outside of it, and by whom.
PARTLY: dict[tuple[str, str], tuple[str, ...]] = {
    ("config", "methods"): ("fedsuper.config.reading",),  # the importing file
    ("config", "inference"): ("fedsuper.config.reading",),
}
# Heavy or foreign packages, and the only places that may import them.
PLACES: dict[str, tuple[str, ...]] = {
    "nvflare": ("engines/flare",),
    "monai": ("models", "inference/export", "evaluation/metrics"),
    "opacus": ("core/privacy",),
    "matplotlib": ("report",),
    "jinja2": ("report", "inference/export", "inference/serve"),
    "pydicom": ("data/images", "data/importers"),
    "highdicom": ("data/images",),
    "starlette": ("inference/serve",),
    "uvicorn": ("inference/serve",),
}
TORCH_FREE = ("cli", "config", "errors.py", "files.py", "schema.py", "display.py", "data/images", "data/doctor")


def imports(source: str) -> set[str]:
    """Every module or name a source text imports, at the top or inside a function, as dotted names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    return found


def violations(place: str, source: str) -> list[str]:
    """What a file at `place` (relative to the package) imports through a wall."""
    names, room = imports(source), Path(place).parts[0]
    module = "fedsuper." + place.removesuffix(".py").replace("/", ".")
    found = [f"{name}: a relative import" for name in names if name.startswith(".")]
    for name in names:
        parts = name.split(".")
        allowed = PLACES.get(parts[0])
        if allowed is not None and not any(f"{place}/".startswith(f"{there}/") for there in allowed):
            found.append(f"{name}: only {' and '.join(allowed)} may import {parts[0]}")
        if parts[0] == "torch" and any(f"{place}/".startswith(f"{there}/") for there in TORCH_FREE):
            found.append(f"{name}: torch is slow to import and not needed in {place}")
        if parts[0] == "fedsuper" and len(parts) > 1 and place not in PUBLIC:
            found += _through_a_wall(room, module, name, parts[1])
    return found


def _through_a_wall(room: str, module: str, name: str, other: str) -> list[str]:
    if other == "api":
        return [f"{name}: the public API is for users; import what it calls"]
    if other not in ROOMS or other == room:
        return []
    if other not in ROOMS.get(room, set()):
        return [f"{name}: {room} must not import {other}"]
    only = PARTLY.get((room, other))
    return [f"{name}: in {room} only {only[0]} may import {other}"] if only and module not in only else []


def import_graph() -> dict[str, set[str]]:
    """Module to the modules it imports when it runs; imports for type checkers alone do not run."""
    modules = {_module_name(path): path for path in MODULES}
    graph = {}
    for module, path in modules.items():
        tree = _Running().visit(ast.parse(path.read_text(encoding="utf-8")))
        names = imports(ast.unparse(tree))
        graph[module] = {
            name if name in modules else name.rpartition(".")[0] for name in names if name.startswith("fedsuper.")
        } & set(modules) - {module}
    return graph


class _Running(ast.NodeTransformer):
    """Leaves out what only a type checker reads."""

    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.Pass() if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Some modules that import each other in a circle; empty where there are none."""
    left = {module: set(needs) for module, needs in graph.items()}
    while free := {module for module, needs in left.items() if not needs & left.keys()}:
        left = {module: needs for module, needs in left.items() if module not in free}
    return sorted(left)
