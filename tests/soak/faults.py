"""Faults in the environment of the program, which are repaired after a while."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tests.support.damaged_files import SPOILS, whole
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.spec import AttentionSpec
from visualizer.widgets.app_settings import user_data_folder

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.soak.served_model import ModelServer

if sys.platform != "win32":
    import resource

LEAST_FILE = 4096
"""Maximum size of a file while the disk counts as full, in bytes."""
DAMAGED_DOCUMENTS = 12
LEAST_MEMORY, MOST_MEMORY = 2**28, 2**31
"""Minimum and maximum address space that the program can still allocate while its memory is
limited, in bytes.
"""
MODEL, SERVED_MODEL = "model", "served model"
"""Names of the model folders next to the documents."""
SERVED_SIZES: tuple[tuple[str, dict[str, int]], ...] = (
    ("llama", {}),
    ("gpt2", {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 4,
              "n_inner": 3072, "max_position_embeddings": 1024}),
    ("llama", {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3,
               "head_dim": 64, "intermediate_size": 1536, "num_hidden_layers": 6,
               "max_position_embeddings": 2048}),
    ("gemma3_text", {"hidden_size": 640, "num_attention_heads": 4, "num_key_value_heads": 1,
                     "head_dim": 256, "intermediate_size": 2048, "num_hidden_layers": 4,
                     "max_position_embeddings": 2048, "sliding_window": 512}),
)  # fmt: skip
"""Configs of the served model: a tiny model, or a few layers with the sizes of GPT-2, SmolLM 135M
and Gemma 3 270M, whose weights and stages are too large to be sent in full.
"""


def make_files(place: Path, chance: random.Random) -> None:
    """Write documents, weights, texts and models that can be opened; some files are damaged."""
    make_documents(place, chance)
    save_tiny_model(place / MODEL)
    kind, sizes = chance.choice(SERVED_SIZES)
    save_tiny_model(place / SERVED_MODEL, kind, **sizes)


def make_documents(place: Path, chance: random.Random) -> None:
    """Write documents, weights and texts that can be opened; some files are damaged."""
    place.mkdir()
    suffixes = {"tEXt": ".png", "zTXt": ".png", "iTXt": ".png", "svg": ".svg", "pdf": ".pdf"}
    files = whole()
    for name, content in files.items():
        suffix = suffixes.get(name, ".attention")
        (place / f"{name}{suffix}").write_bytes(content)
    for number in range(DAMAGED_DOCUMENTS):
        spoil, content = chance.choice(SPOILS), chance.choice([*files.values()])
        (place / f"damaged {number}.attention").write_bytes(spoil(chance, content, files))
    spec = AttentionSpec()
    np.save(place / "weights.npy", np.ones((spec.d_in, spec.d_in), np.float32))
    np.savez(place / "arrays.npz", W_q=np.eye(3, dtype=np.float32))
    (place / "text.txt").write_text("A short text\nof two lines, für alle.", encoding="utf-8")
    (place / "long.txt").write_text("many words " * 20_000, encoding="utf-8")
    (place / "numbers.csv").write_text("1,2,3\n4,5,6\n", encoding="utf-8")
    (place / "empty.attention").write_bytes(b"")
    (place / "folder").mkdir()


class Faults:
    """Causes faults, and repairs them.

    Parameters
    ----------
    place : Path
        The folder with the documents that the program opens.
    server : ModelServer, optional
        Serves a model.
    """

    def __init__(
        self, place: Path, chance: random.Random, server: ModelServer | None = None
    ) -> None:
        self._place, self._chance, self._server = place, chance, server
        self.is_memory_limited = False
        self._mend: Callable[[], object] | None = None
        self._left = 0

    def count_down(self) -> None:
        """Repair the fault if it has lasted long enough."""
        self._left -= 1
        if self._left <= 0:
            self.mend()

    def mend(self) -> None:
        mend, self._mend = self._mend, None
        if mend:
            mend()

    def make(self) -> str:
        """Cause one fault, and return a description."""
        self.mend()
        self._left = self._chance.randrange(5, 60)
        # Faults that lead to serving or opening a model again are rarer, because they use the most
        # resources.
        makers = [*3 * [self._read_only, self._damage, self._lose_file], self._kill_children]
        if sys.platform != "win32":
            makers += 3 * [self._fill_disk, self._limit_memory]
            if self._server:
                makers += [self._lose_server, self._pause_server, self._pause_server]
        return self._chance.choice(makers)()

    def _read_only(self) -> str:
        folder = self._chance.choice([self._place, user_data_folder()])
        if folder.is_dir():
            folder.chmod(0o500)
            self._mend = lambda: folder.chmod(0o700)
        return f"a read-only folder: {folder.name}"

    def _fill_disk(self) -> str:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LEAST_FILE, hard))
        self._mend = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return "a full disk"

    def _limit_memory(self) -> str:
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        left = self._chance.randrange(LEAST_MEMORY, MOST_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + left, hard))
        self.is_memory_limited = True

        def mend() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            self.is_memory_limited = False

        self._mend = mend
        return "little memory"

    def _lose_server(self) -> str:
        assert self._server
        self._server.lose()
        self._mend = self._server.ensure
        return "the server of a model is killed"

    def _pause_server(self) -> str:
        assert self._server
        self._server.pause()
        self._mend = self._server.resume
        return "the server of a model does not answer"

    def _damage(self) -> str:
        """Damage a file that is or was open, or the list of recent files."""
        home = self._place.parent
        files = sorted([*self._place.glob("*.attention"), *home.rglob("recent*.json"),
                        *home.rglob("*.recovery")])  # fmt: skip
        file = self._chance.choice(files)
        try:
            content = file.read_bytes() or b"x"
            spoil = self._chance.choice(SPOILS)
            file.write_bytes(spoil(self._chance, content, whole()))
        except OSError as error:
            return f"a damaged file could not be made: {error}"
        return f"a damaged file: {file.name}"

    def _lose_file(self) -> str:
        files = sorted(self._place.glob("*.attention"))
        if len(files) < DAMAGED_DOCUMENTS:
            for name, content in whole().items():
                (self._place / f"{name} again.attention").write_bytes(content)
        elif files:
            self._chance.choice(files).unlink(missing_ok=True)
        return "a file is gone"

    def _kill_children(self) -> str:
        """Kill training processes, the tokenizer process and the model server."""
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # the process has ended in the meantime
                child.kill()
        if self._server:
            self._mend = self._server.ensure
        return "all other processes of the program are killed"
