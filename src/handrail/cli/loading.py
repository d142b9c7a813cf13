"""From the text of a target to the module that it names, or to one line that says what is wrong with it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

from handrail.errors import HandrailError, TargetError
from handrail.naming import did_you_mean

__all__ = ["PREFIX", "load", "split"]

PREFIX = "_handrail_target_"
"""Begins the names that files are loaded under, so that ``json.py`` does not become the module ``json``."""

SHAPE = "write file.py, file.py:name, module, or module:name"


def split(text: str) -> tuple[str, str | None]:
    """Split a target into a file or module, and a name in it.

    Raises:
        TargetError: If the text has not the shape of a target.
    """
    location, colon, name = text.rpartition(":")
    # A colon may also stand in a path, as in C:\app.py.
    if text and (not colon or text.endswith(".py")):
        return text, None
    if not location or not name.isidentifier():
        raise TargetError(f"{text!r} is not a target", hint=SHAPE)
    return location, name


def load(location: str) -> ModuleType:
    """Load a file or a module.

    Raises:
        TargetError: If it does not exist, or does not load.
    """
    return _load_file(Path(location)) if _is_file(location) else _load_module(location)


def _is_file(location: str) -> bool:
    return location.endswith(".py") or "/" in location or os.sep in location


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"there is no file {str(path)!r}", hint=_nearby(path), path=str(path))
    if path.suffix != ".py":
        raise TargetError(f"{str(path)!r} is not a Python file", hint=SHAPE, path=str(path))
    full = path.resolve()
    _make_importable(full.parent)
    digest = hashlib.sha256(str(full).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = f"{PREFIX}{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}_{digest}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, pickles and pydantic look a class's module up while the file is still being run.
    sys.modules[name] = module
    with _explained(str(path), full):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _load_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(f"{name!r} is neither a .py file nor a module", hint=SHAPE)
    _make_importable(Path.cwd())
    with _explained(name, None):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
                raise
            hint = f"for the file write {name}.py" if Path(f"{name}.py").is_file() else "is it installed here?"
            raise TargetError(f"there is no module {name!r}", hint=hint) from error


def _make_importable(folder: Path) -> None:
    """Let a file import its neighbours. Last in line, so that none of them takes the place of an installed module."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@contextlib.contextmanager
def _explained(name: str, path: Path | None) -> Generator[None]:
    """Turn whatever loading a module raises into one line that names the place."""
    try:
        yield
    except TargetError:
        raise
    except SyntaxError as error:
        where = f"{Path(error.filename or name).name}, line {error.lineno}"
        raise TargetError(f"{name} does not parse: {error.msg} ({where})") from error
    except ModuleNotFoundError as error:
        hint = f"install {error.name}, or run this in the environment that has it" if error.name else None
        raise TargetError(f"{_place(name, path, error)}: {error}", hint=hint) from error
    except HandrailError as error:
        told = path is not None and str(path) in error.message
        message = error.message if told else f"{_place(name, path, error)}: {error.message}"
        raise TargetError(message, hint=error.hint) from error
    except SystemExit as error:
        hint = "put what a script does under: if __name__ == '__main__'"
        raise TargetError(f"{_place(name, path, error)}: it exits when it is loaded", hint=hint) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise TargetError(f"{_place(name, path, error)}: {reason}", hint="--debug shows where") from error


def _place(name: str, path: Path | None, error: BaseException) -> str:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if path and frame.filename == str(path)
    ]
    return f"{name}, line {lines[-1]}" if lines else f"{name} does not load"


def _nearby(path: Path) -> str:
    try:
        names = sorted(other.name for other in path.parent.iterdir() if other.suffix == ".py")
    except OSError:
        return f"there is no folder {str(path.parent)!r}"
    return did_you_mean(path.name, names, what="Python files there")
