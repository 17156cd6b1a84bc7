"""Tests that chat templates are applied as in transformers, and that failures are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

import visualizer
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import save_tiny_model
from visualizer import InputError
from visualizer.models import model_tokenizer
from visualizer.models.head_edits import context_edits
from visualizer.models.model_source import HeadEdit, HeadEditKind
from visualizer.models.tokenizer_process import ResponseLimits

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}the {{ message['content'] }} </s>{% endfor %}"
    "{% if add_generation_prompt %} a{% endif %}"
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny", sliding_window=None)


def opened(saved: Path, template: str) -> visualizer.Model:
    """Open the model with the given template."""
    (saved / "chat_template.jinja").write_text(template, encoding="utf-8")
    return visualizer.open_model(saved)


@pytest.fixture
def model(saved: Path) -> visualizer.Model:
    return opened(saved, TEMPLATE)


def test_a_message_is_rendered_as_in_transformers(model: visualizer.Model) -> None:
    tokenizer = tokenizer_of(model.opened)
    message = [{"role": "user", "content": "cat sat"}]
    settings = {"add_generation_prompt": True, "return_dict": False}
    ids = tokenizer.apply_chat_template(message, **settings)
    seen = model.attend("cat sat", chat=True)
    assert seen.tokens == tuple(map(model.opened.token_text, ids))
    assert seen.tokens == ("<s>", "the", "cat", "sat", "</s>", "a")
    plain = model.attend("the cat sat </s> a")
    np.testing.assert_allclose(seen["weights"], plain["weights"], atol=1e-6)
    special = dict(model.opened.special_tokens("cat sat", is_chat=True))
    assert sorted(special) == [0, 4]
    assert special[0].startswith("BOS")
    assert special[4].startswith("EOS")


def test_the_generated_reply_follows_the_message(model: visualizer.Model) -> None:
    answer = model.generate("cat sat", 4, chat=True)
    plain = model.generate("the cat sat </s> a", 4)
    assert answer.tokens == plain.tokens
    assert answer.start == 6


def test_edits_of_heads_apply_to_the_rendered_message(model: visualizer.Model) -> None:
    edits = (
        HeadEdit(0, 1, HeadEditKind.MEAN),
        HeadEdit(1, 2, HeadEditKind.PATCHED, text="dog ran"),
    )
    written = (replace(edits[0]), replace(edits[1], text="the dog ran </s> a"))
    opened, whole = model.opened, "the cat sat </s> a"
    as_message = context_edits(opened, "cat sat", edits, is_chat=True)
    cuts = {(0, 3): ((5, 2),)}
    seen = opened.read("cat sat", as_message, cuts, is_chat=True)
    plain = opened.read(whole, context_edits(opened, whole, written), cuts)
    for found, wanted in (
        (seen.next_token, plain.next_token),
        (seen.next_token_of_all_heads, plain.next_token_of_all_heads),
    ):
        assert found is not None
        assert wanted is not None
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert seen.next_token is not None
    assert seen.next_token_of_all_heads is not None
    assert float((seen.next_token - seen.next_token_of_all_heads).abs().max()) > 1e-4


def test_a_model_without_a_template_is_rejected(tiny_model_folder: Path) -> None:
    with pytest.raises(InputError, match="has no chat template") as refused:
        visualizer.open_model(tiny_model_folder).attend("cat", chat=True)
    assert refused.value.field == "chat"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "Roles must alternate"),
        ("{% for", "failed"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ range(10**12) | list }}", "Range too big"),
        ("{% for at in range(90000)%}aaaa{% endfor %}", "it adds more than 262,144 characters"),
        ("a" * (2**18 + 1), "it is longer than 262,144 characters"),
    ],
)
def test_a_template_that_fails_is_rejected(saved: Path, template: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        opened(saved, template).attend("cat", chat=True)
    assert refused.value.field == "chat"


LOOP = "{% for one in range(90000)%}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0]['content'] | length + 3 ** (10 ** 9) }}",  # one compiled operation
        pytest.param(f"{LOOP}{LOOP}{{% endfor %}}{{% endfor %}}", marks=pytest.mark.slow),
        pytest.param(
            "{% set many = 7 ** (messages | length * 10 ** 7)%}{{ many % 7 }}",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["constants", "loops", "power"],
)
def test_a_template_that_takes_too_long_is_stopped(
    saved: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_tokenizer, "CHAT_LIMITS", ResponseLimits(0.2, 2**30))
    model = opened(saved, template)
    with pytest.raises(InputError, match=r"it took longer than 0\.2 seconds") as refused:
        model.attend("cat", chat=True)
    assert refused.value.field == "chat"
    assert model.attend("the cat").tokens == ("<s>", "the", "cat")


@pytest.mark.slow
@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10**9 }}",
        "{{ ('%1000000000d' % 1) ~ '%1000000000d' % 1 }}",
        "{{ 'a' | center(10**9) | upper | lower | upper }}",
    ],
    ids=["product", "format", "filters"],
)
def test_a_template_that_needs_too_much_memory_is_stopped(
    saved: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_tokenizer, "CHAT_LIMITS", ResponseLimits(20, 2**27))
    model = opened(saved, template)
    with pytest.raises(InputError, match="it needed more than 128 MiB of memory"):
        model.attend("cat", chat=True)
    assert model.attend("the cat").tokens == ("<s>", "the", "cat")
