"""A text is given as a message as transformers does it; templates that fail are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer import InputError
from visualizer.models import chat_template
from visualizer.models.activation_patching import context_edits
from visualizer.models.model_source import HeadEdit, HeadEditKind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}the {{ message['content'] }} </s>{% endfor %}"
    "{% if add_generation_prompt %} a{% endif %}"
)


@pytest.fixture
def model(tmp_path: Path) -> visualizer.Model:
    made = visualizer.open_model(save_tiny_model(tmp_path / "tiny", sliding_window=None))
    made.opened.tokenizer.chat_template = TEMPLATE
    return made


def test_a_message_is_what_transformers_makes_of_it(model: visualizer.Model) -> None:
    tokenizer = model.opened.tokenizer
    message = [{"role": "user", "content": "cat sat"}]
    settings = {"add_generation_prompt": True, "return_dict": False}
    ids = tokenizer.apply_chat_template(message, **settings)
    seen = model.attend("cat sat", chat=True)
    assert seen.tokens == tuple(map(model.opened.token, ids))
    assert seen.tokens == ("<s>", "the", "cat", "sat", "</s>", "a")
    plain = model.attend("the cat sat </s> a")
    np.testing.assert_allclose(seen["weights"], plain["weights"], atol=1e-6)
    special = dict(model.opened.special_tokens("cat sat", is_chat=True))
    assert sorted(special) == [0, 4]
    assert special[0].startswith("BOS")
    assert special[4].startswith("EOS")


@pytest.mark.parametrize("made", ["9**9**9", "'a' * 10000000000", "messages | length * 2"])
def test_a_template_that_multiplies_is_refused_before_it_is_compiled(
    model: visualizer.Model, made: str
) -> None:
    model.opened.tokenizer.chat_template = "a * b {# 2 * 3 #}{{ '*' }}" + TEMPLATE  # in words only
    assert model.opened.as_given("cat sat", is_chat=True).startswith("a * b *")
    model.opened.tokenizer.chat_template = f"{{{{ {made} }}}}{TEMPLATE}"
    with pytest.raises(InputError, match="it multiplies"):
        model.attend("cat sat", chat=True)


def test_an_answer_follows_the_message(model: visualizer.Model) -> None:
    answer = model.generate("cat sat", 4, chat=True)
    plain = model.generate("the cat sat </s> a", 4)
    assert answer.tokens == plain.tokens
    assert answer.start == 6


def test_heads_are_edited_as_the_message_is_given(model: visualizer.Model) -> None:
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


def test_a_model_without_a_template_is_refused(model: visualizer.Model) -> None:
    model.opened.tokenizer.chat_template = None
    with pytest.raises(InputError, match="tiny has no chat template") as refused:
        model.attend("cat", chat=True)
    assert refused.value.field == "chat"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('Roles must alternate.') }}", "Roles must alternate"),
        ("{% for", "cannot be used"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% for at in range(90000) %}aaaa{% endfor %}", "it adds more than 262,144 letters"),
        ("a" * (2**18 + 1), "it is longer than 262,144 letters"),
    ],
)
def test_a_template_that_fails_is_refused(
    model: visualizer.Model, template: str, reason: str
) -> None:
    model.opened.tokenizer.chat_template = template
    with pytest.raises(InputError, match=reason):
        model.attend("cat", chat=True)


def test_a_template_that_takes_long_is_stopped(
    model: visualizer.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "MOST_SECONDS", 0.05)
    loop = "{% for one in range(90000) %}"
    model.opened.tokenizer.chat_template = f"{loop}{loop}{{% endfor %}}{{% endfor %}}"
    with pytest.raises(InputError, match="takes longer than"):
        model.attend("cat", chat=True)
