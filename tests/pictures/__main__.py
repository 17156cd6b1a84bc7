"""Creates the images in the README and the documentation: ``python -m tests.pictures --help``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.resources import documentation_path

if TYPE_CHECKING:
    from collections.abc import Sequence


class PictureModule(Struct, frozen=True):
    """A module that creates some of the images in a separate process.

    Parameters
    ----------
    scale : float
        Pixels of an image per pixel of the window; images with many cells would otherwise be too
        large.
    """

    name: str
    pictures: tuple[str, ...]
    scale: float
    reads_model: bool = False


MODULES = (
    PictureModule(
        "windows",
        (
            *("lesson.png", "playing.png", "light.png", "export.png", "compare.png", "lines.png"),
            "flow.png",
        ),
        1.5,
    ),
    PictureModule("film", ("window.webp",), 1.0),
    PictureModule("lab", ("lab.png", "head-forming.webp"), 1.0),
    PictureModule("model", ("model.png",), 1.5, reads_model=True),
    PictureModule("notebook", ("notebook.png",), 1.0, reads_model=True),
)
PICTURES = {picture: module for module in MODULES for picture in module.pictures}


def build_parser() -> argparse.ArgumentParser:
    """Create the argument parser."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pictures",
        description="Makes the pictures of README and documentation.",
        epilog=f"The pictures: {', '.join(PICTURES)}. For those of the lab a model is trained.",
    )
    parser.add_argument(
        "pictures",
        nargs="*",
        metavar="picture",
        help="a picture to make; all that can be made unless some are named",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FOLDER",
        help="the folder of SmolLM2-135M-Instruct, which model.png and notebook.png show",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=documentation_path("pictures"),
        help="where the pictures are written; docs/pictures unless given",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Create the images that are given as arguments."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.pictures if name not in PICTURES]:
        parser.error(f"there is no picture {unknown[0]}; there are {', '.join(PICTURES)}")
    if options.model is None and any(PICTURES[name].reads_model for name in options.pictures):
        parser.error("this picture needs --model FOLDER")
    for module in MODULES:
        named = [name for name in module.pictures if name in options.pictures]
        if named or not (options.pictures or (module.reads_model and options.model is None)):
            made = named or module.pictures
            _run(module, options.out.resolve(), made, options.model)


def _run(module: PictureModule, folder: Path, names: Sequence[str], model: Path | None) -> None:
    given = [str(model.absolute())] if module.reads_model and model else []
    subprocess.run(
        [sys.executable, "-m", f"tests.pictures.{module.name}", str(folder), *given, *names],
        check=True,
        env={"QT_QPA_PLATFORM": "offscreen"} | os.environ | {"QT_SCALE_FACTOR": str(module.scale)},
    )


if __name__ == "__main__":
    main()
