"""A step of the build: compile the kernels of local training, where a C compiler is.

The libraries are loaded with ctypes and know nothing of Python's own interface, so one wheel serves
every Python of a platform. They are optional: without a compiler, or where it fails, the build goes
through without them, and the general loop trains everything.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "understudy/simulation/training/kernels"


class CompileKernels(BuildHookInterface[Any]):
    """Runs before a wheel is written, also before that of an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the libraries to the wheel (or leave them beside the source)."""
        source = Path(self.root, "src", KERNELS)
        compilation = _loaded(source / "compile.py")
        if version == "editable":
            folder = source
            for old in source.glob("*.so"):  # of another source, should the compiler fail now
                old.unlink()
        else:
            self.scratch = tempfile.TemporaryDirectory(prefix="understudy-kernels-")
            folder = Path(self.scratch.name)
        if not compilation.supported():
            return
        try:
            libraries = compilation.compile_all(folder)
        except compilation.CannotCompile as error:
            self.app.display_warning(f"built without the compiled kernels: {error}")
            return
        if version != "editable":
            build_data["force_include"].update(
                {str(path): f"{KERNELS}/{path.name}" for path in libraries}
            )
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled into a temporary folder."""
        if hasattr(self, "scratch"):
            self.scratch.cleanup()


def _loaded(path: Path) -> ModuleType:
    """A module by its file: the package itself cannot be imported while it is built."""
    spec = importlib.util.spec_from_file_location("understudy_compile", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
