"""Generator of short stories in simple English from a simulated world of a few hundred words.

Each line is a story. People and things keep their places until they are moved, so that every
answer follows from earlier sentences; a pronoun refers to the subject of the previous sentence;
verbs agree with their subjects.

Source: Weston et al. 2015, "Towards AI-Complete Question Answering" (simulated worlds).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHE = (
    *("Ada", "Anna", "Clara", "Ella", "Emma", "Grace", "Ida", "Jane", "Kate", "Lily"),
    *("Lucy", "Maria", "Mina", "Nora", "Olga", "Rosa", "Ruth", "Sara", "Tara", "Vera"),
)
HE = (
    *("Adam", "Ben", "Carl", "Dan", "Emil", "Finn", "Hugo", "Ivan", "Jack", "Karl"),
    *("Leo", "Max", "Nick", "Omar", "Otto", "Paul", "Sam", "Tom", "Viktor", "Will"),
)
COLOURS = (
    *("red", "blue", "green", "yellow", "white", "black", "brown", "grey", "small", "big"),
    *("old", "new", "heavy", "light", "round", "long"),
)
THINGS = (
    *("apple", "bag", "ball", "basket", "bell", "book", "boot", "bottle", "bowl", "box"),
    *("brush", "button", "cake", "candle", "coat", "coin", "comb", "cup", "doll", "drum"),
    *("flag", "flower", "fork", "glass", "hammer", "hat", "jar", "kettle", "key", "kite"),
    *("knife", "ladder", "lamp", "leaf", "letter", "map", "mirror", "mug", "nail", "needle"),
    *("pan", "paper", "pear", "pen", "pillow", "plate", "pot", "ring", "rope", "scarf"),
    *("shell", "shoe", "spoon", "stick", "stone", "ticket", "towel", "toy", "watch", "wheel"),
)
SPOTS = (
    *("on the table", "on the chair", "on the shelf", "on the floor", "on the bench"),
    *("under the table", "under the chair", "under the bench", "under the window"),
    *("behind the door", "behind the curtain", "beside the door", "beside the wall"),
    *("in the corner", "in the cupboard", "in the drawer", "near the window", "near the stairs"),
)
ROOMS = (
    *("attic", "barn", "cellar", "church", "garage", "garden", "hall", "hotel", "kitchen"),
    *("library", "market", "museum", "office", "park", "school", "shop", "stable", "station"),
    *("theatre", "tower", "village", "yard"),
)
ANIMALS = (
    *("bear", "bird", "cat", "cow", "dog", "duck", "frog", "goat", "hen", "horse"),
    *("lion", "owl", "pig", "rabbit", "snake", "spider"),
)
LIKED = (
    *("apples", "birds", "bread", "cats", "cheese", "chess", "dogs", "films", "flowers"),
    *("games", "honey", "horses", "jokes", "milk", "music", "nuts", "plums", "poems"),
    *("rain", "rice", "snow", "soup", "stories", "sugar", "sunshine", "tea"),
)
DOES = (
    *("climb", "cough", "dance", "dream", "eat", "hum", "jump", "laugh", "listen", "play"),
    *("read", "rest", "run", "shout", "sing", "sleep", "smile", "sneeze", "wait", "walk"),
    *("whisper", "work", "yawn"),
)
"""Verbs; the third person singular adds an s."""
HOW = (
    *("again", "alone", "badly", "happily", "loudly", "quickly", "quietly", "sadly"),
    *("slowly", "softly", "well", "wildly"),
)

T = TypeVar("T")

LETTERS = 4
"""Approximate characters per word token: a word and a space, or a full stop."""
SENTENCES = 16
"""Sentences of a story after its introduction."""


def story(size: int, seed: int) -> str:
    """Generate stories of at least ``size`` characters; the last story is complete."""
    # Of Random, only random() gives the same numbers in every version of Python.
    draw = Random(seed).random
    told: list[str] = []
    length = 0
    while length < size:
        told.append(StoryWriter(draw).tell())
        length += len(told[-1]) + 1
    return "\n".join(told)


@dataclass(slots=True)
class StoryPerson:
    """A person in a story, with room, likes and held things."""

    name: str
    is_she: bool
    room: str
    likes: str
    holds: list[StoryThing] = field(default_factory=list)

    @property
    def pronoun(self) -> str:
        return "She" if self.is_she else "He"


@dataclass(slots=True)
class StoryThing:
    """A thing in a story, with appearance and place."""

    noun: str
    look: str
    room: str
    spot: str

    @property
    def name(self) -> str:
        return f"the {self.look} {self.noun}"


class StoryWriter:
    """The current state of a world, with the sentences that change or describe it."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._rooms = self._some(ROOMS, 3)
        names = self._some((*SHE, *HE), 3)
        likes = self._some(LIKED, 3)
        self._people = [
            StoryPerson(name, name in _SHE, self._one(self._rooms), liked)
            for name, liked in zip(names, likes, strict=True)
        ]
        looks = self._some(COLOURS, 3)
        self._things = [
            StoryThing(noun, look, self._one(self._rooms), self._one(SPOTS))
            for noun, look in zip(self._some(THINGS, 3), looks, strict=True)
        ]
        self._subject: StoryPerson | None = None  # of the last sentence

    def tell(self) -> str:
        said = [f"{person.name} is in the {person.room}." for person in self._people]
        said += [
            f"{_a(thing.look)} {thing.noun} is {thing.spot} in the {thing.room}."
            for thing in self._things
        ]
        said += [self._sentence() for _ in range(SENTENCES)]
        return " ".join(said)

    def _sentence(self) -> str:
        person = self._one(self._people)
        if self._subject and self._draw() < 0.4:
            person = self._subject
        return self._one(_SENTENCES)(self, person)

    def _goes(self, person: StoryPerson) -> str:
        person.room = self._one([room for room in self._rooms if room != person.room])
        return f"{self._name(person)} goes to the {person.room}."

    def _go(self, person: StoryPerson) -> str:
        other = self._one([other for other in self._people if other is not person])
        if other.room != person.room:
            return self._goes(person)
        self._goes(person)
        other.room = person.room
        self._subject = None
        how = f"They {self._one(DOES)} there."
        return f"{person.name} and {other.name} go to the {person.room}. {how}"

    def _takes(self, person: StoryPerson) -> str:
        if person.holds:
            return self._puts(person)
        held = [thing for other in self._people for thing in other.holds]
        near = [one for one in self._things if one.room == person.room and one not in held]
        if not near:
            return self._goes(person)
        thing = self._one(near)
        person.holds.append(thing)
        return f"{self._name(person)} takes {thing.name}."

    def _puts(self, person: StoryPerson) -> str:
        near = [one for one in self._people if one.room == person.room and one is not person]
        thing = person.holds.pop()
        if near and self._draw() < 0.4:
            other = self._one(near)
            other.holds.append(thing)
            return f"{self._name(person)} gives {thing.name} to {other.name}."
        thing.room, thing.spot = person.room, self._one(SPOTS)
        return f"{self._name(person)} puts {thing.name} {thing.spot}."

    def _does(self, person: StoryPerson) -> str:
        return f"{self._name(person)} {self._one(DOES)}s {self._one(HOW)}."

    def _animals(self, _: StoryPerson) -> str:
        self._subject = None
        animal, does, room = self._one(ANIMALS), self._one(DOES), self._one(self._rooms)
        if self._draw() < 0.5:
            return f"The {animal} {does}s in the {room}."
        return f"The {animal}s {does} in the {room}."

    def _liked(self, person: StoryPerson) -> str:
        if self._draw() < 0.5:
            return f"{self._name(person)} likes {person.likes}."
        self._subject = person
        return f"What does {person.name} like? {person.pronoun} likes {person.likes}."

    def _where(self, person: StoryPerson) -> str:
        self._subject = person
        return f"Where is {person.name}? {person.pronoun} is in the {person.room}."

    def _where_is(self, _: StoryPerson) -> str:
        self._subject = None
        thing = self._one(self._things)
        for person in self._people:
            if thing in person.holds:
                return f"Who has {thing.name}? {person.name} has it."
        return f"Where is {thing.name}? It is {thing.spot} in the {thing.room}."

    def _name(self, person: StoryPerson) -> str:
        """Return a name, or mostly a pronoun if the last sentence had the same subject."""
        again = person is self._subject and self._draw() < 0.8
        self._subject = person
        return person.pronoun if again else person.name

    def _one(self, among: Sequence[T]) -> T:
        return among[int(self._draw() * len(among))]

    def _some(self, among: Sequence[T], count: int) -> list[T]:
        """Draw distinct elements."""
        drawn: list[T] = []
        while len(drawn) < count:
            one = self._one(among)
            if one not in drawn:
                drawn.append(one)
        return drawn


def _a(word: str) -> str:
    return f"An {word}" if word[0] in "aeiou" else f"A {word}"


_SHE = frozenset(SHE)
_SENTENCES: tuple[Callable[[StoryWriter, StoryPerson], str], ...] = (
    *(
        StoryWriter._goes,
        StoryWriter._go,
        StoryWriter._takes,
        StoryWriter._takes,
        StoryWriter._does,
    ),
    *(
        StoryWriter._animals,
        StoryWriter._liked,
        StoryWriter._where,
        StoryWriter._where_is,
        StoryWriter._where_is,
    ),
)
