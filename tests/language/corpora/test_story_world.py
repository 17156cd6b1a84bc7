"""The sentences of the story world are consistent, according to a reader that knows only them."""

from __future__ import annotations

import re

import pytest

from visualizer.language.corpora.story_world import (
    ADVERBS,
    ANIMALS,
    FEMALE_NAMES,
    LIKED_THINGS,
    MALE_NAMES,
    ROOMS,
    THINGS,
    VERBS,
    generate_stories,
)

PEOPLE = "|".join((*FEMALE_NAMES, *MALE_NAMES))
WHO = rf"(?P<who>{PEOPLE}|She|He)"
IT = r"the (?P<thing>\w+ \w+)"


class Reader:
    """Reads a story sentence by sentence, and answers its questions before the story does."""

    FORMS = (
        ("is_in", rf"{WHO} is in the (?P<room>\w+)\."),
        ("lies", r"An? (?P<thing>\w+ \w+) is (?P<spot>\w+ the \w+) in the (?P<room>\w+)\."),
        ("goes", rf"{WHO} goes to the (?P<room>\w+)\."),
        ("go", rf"(?P<who>{PEOPLE}) and (?P<other>{PEOPLE}) go to the (?P<room>\w+)\."),
        ("they", rf"They (?:{'|'.join(VERBS)}) there\."),
        ("takes", rf"{WHO} takes {IT}\."),
        ("gives", rf"{WHO} gives {IT} to (?P<other>{PEOPLE})\."),
        ("puts", rf"{WHO} puts {IT} (?P<spot>\w+ the \w+)\."),
        ("does", rf"{WHO} (?:{'|'.join(f'{one}s' for one in VERBS)}) (?:{'|'.join(ADVERBS)})\."),
        ("likes", rf"{WHO} likes (?P<liked>{'|'.join(LIKED_THINGS)})\."),
        ("asks", rf"What does (?P<who>{PEOPLE}) like\?"),
        ("asks", rf"Where is (?P<who>{PEOPLE})\?"),
        (
            "animal",
            rf"The (?:{'|'.join(ANIMALS)}) (?:{'|'.join(f'{one}s' for one in VERBS)}) in .*",
        ),
        ("animal", rf"The (?:{'|'.join(ANIMALS)})s (?:{'|'.join(VERBS)}) in the \w+\."),
        ("asks_thing", rf"Where is {IT}\?|Who has the (?P<held>\w+ \w+)\?"),
        ("it_is", r"It is (?P<spot>\w+ the \w+) in the (?P<room>\w+)\."),
        ("has", rf"(?P<who>{PEOPLE}) has it\."),
    )

    def __init__(self) -> None:
        self.rooms: dict[str, str] = {}
        self.things: dict[str, tuple[str, str] | str] = {}
        self.liked: dict[str, str] = {}
        self.last = self.thing = self.before = ""

    def read(self, sentence: str) -> None:
        for name, form in self.FORMS:
            if found := re.fullmatch(form, sentence):
                parts = {key: value for key, value in found.groupdict().items() if value}
                self._follow(name, parts)
                self.before = name
                return
        pytest.fail(f"no such sentence: {sentence}")

    def _follow(self, name: str, parts: dict[str, str]) -> None:
        if "who" in parts:
            parts["who"] = self._person(parts["who"])
        getattr(self, name)(**parts)
        self.last = parts.get("who", "") if name not in {"go", "has"} else ""

    def _person(self, who: str) -> str:
        if who in {"She", "He"}:
            assert self.last in (FEMALE_NAMES if who == "She" else MALE_NAMES)
            return self.last
        return who

    def is_in(self, who: str, room: str) -> None:
        assert self.rooms.setdefault(who, room) == room

    def lies(self, thing: str, spot: str, room: str) -> None:
        self.things[thing] = (spot, room)

    def goes(self, who: str, room: str) -> None:
        assert self.rooms[who] != room
        self.rooms[who] = room

    def go(self, who: str, other: str, room: str) -> None:
        assert self.rooms[who] == self.rooms[other] != room
        self.rooms[who] = self.rooms[other] = room

    def they(self) -> None:
        assert self.before == "go"

    def takes(self, who: str, thing: str) -> None:
        assert self.things[thing][1] == self.rooms[who]
        self.things[thing] = who

    def gives(self, who: str, thing: str, other: str) -> None:
        assert self.things[thing] == who != other
        assert self.rooms[who] == self.rooms[other]
        self.things[thing] = other

    def puts(self, who: str, thing: str, spot: str) -> None:
        assert self.things[thing] == who
        self.things[thing] = (spot, self.rooms[who])

    def does(self, who: str) -> None:
        assert who in self.rooms

    def likes(self, who: str, liked: str) -> None:
        assert self.liked.setdefault(who, liked) == liked

    def asks(self, who: str) -> None:
        assert who in self.rooms

    def animal(self) -> None: ...

    def asks_thing(self, thing: str = "", held: str = "") -> None:
        self.thing = thing or held
        assert isinstance(self.things[self.thing], str) == bool(held)

    def it_is(self, spot: str, room: str) -> None:
        assert self.things[self.thing] == (spot, room)

    def has(self, who: str) -> None:
        assert self.things[self.thing] == who


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_stories_are_consistent(seed: int) -> None:
    stories = generate_stories(100_000, seed).split("\n")
    assert len(stories) > 100
    for told in stories:
        reader = Reader()
        for sentence in re.findall(r"[^.?]+[.?]", told):
            reader.read(sentence.strip())
        assert len(reader.rooms) == len(reader.things) == 3


def test_the_world_has_a_few_hundred_words() -> None:
    text = generate_stories(1_000_000, 0)
    words = set(re.findall(r"\w+", text))
    assert 200 < len(words) < 400
    assert words > {*FEMALE_NAMES, *MALE_NAMES, *ROOMS, *THINGS, *LIKED_THINGS}


def test_stories_have_the_requested_length_and_differ() -> None:
    text = generate_stories(200_000, 7)
    assert 200_000 <= len(text) < 202_000
    assert len(set(text.split("\n"))) == text.count("\n") + 1
    assert generate_stories(1_000, 7) == text[: len(generate_stories(1_000, 7))]
